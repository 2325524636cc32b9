"""Ranked chunks as hits: those that are there, with their snippets; one for each document where
they are grouped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.core.messages.search import Hit, Ranked
from engine.core.records import Chunk, Document
from engine.core.text import day
from engine.search.fusing import Fused, Ranking
from engine.search.loaded import Loaded
from engine.search.presence import Presence
from engine.search.snippets import first_shown, page_at, snippet

MIN_DEPTH = 100
"""Chunks that each ranker gives at least."""


@dataclass(frozen=True)
class PresentPassage:
    """A passage that is shown, and the ids of the `documents` with the same text."""

    chunk: Chunk
    document: Document
    score: float
    documents: set[int]


@dataclass(frozen=True)
class Listing:
    """Makes hits of chunks."""

    _loaded: Loaded

    def hits(
        self,
        query: str,
        rankings: dict[str, Ranking],
        fused: Fused,
        top: int,
        presence: Presence,
        *,
        by_document: bool = False,
        with_stop_words: bool = False,
    ) -> tuple[Hit, ...]:
        """The first `top` of `fused` that are there, found by `rankings` for `query`;
        `by_document`: the best of each document. `with_stop_words`: these are marked, too.
        """
        from engine.lexical.analysis import matched_spans

        places = {
            name: {int(c): n for n, c in enumerate(ids, 1)} for name, (ids, _) in rankings.items()
        }
        documents = {
            name: self._document_ranks(list(place)) if by_document else {}
            for name, place in places.items()
        }
        hits: list[Hit] = []
        order, more = self._grouped(fused.order) if by_document else (fused.order, {})
        present = self._present(order, top, presence)
        for passage in present:
            chunk = passage.chunk
            document = passage.document
            ranks = {
                name: Ranked(
                    rank, float(rankings[name][1][rank - 1]), documents[name].get(document.id, 0)
                )
                for name, place in places.items()
                if (rank := place.get(chunk.id))
            }
            if with_stop_words:
                language = "none"
            else:
                language = self._loaded.language(document)
            matches = matched_spans(query, chunk.text, language)
            text, marks = snippet(chunk.text, matches)
            page, place = chunk.page, f"page {chunk.page}" if chunk.page else ""
            if chunk.pages:
                page, place = page_at(chunk.pages, first_shown(chunk.text, matches))
            hits.append(
                Hit(
                    rank=len(hits) + 1,
                    score=passage.score,
                    path=document.path,
                    source=str(self._loaded.project.path / document.source),
                    title=document.title,
                    headings=chunk.headings,
                    snippet=text,
                    marks=marks,
                    format=document.format,
                    modified=document.modified,
                    chunk_id=chunk.id,
                    document_id=document.id,
                    start=chunk.start,
                    end=chunk.end,
                    line=chunk.line,
                    page=page,
                    rankers=ranks,
                    shares=fused.shares(chunk.id),
                    place=place,
                    author=document.author,
                    created=document.created,
                    changed=document.changed,
                    id=document.stable_id,
                    more=more.get(chunk.id, 0),
                    copies=len(passage.documents),
                )
            )
        return tuple(hits)

    def _grouped(
        self, order: Sequence[tuple[int, float]]
    ) -> tuple[list[tuple[int, float]], dict[int, int]]:
        """The best chunk of each document, and by these how many others of the best `MIN_DEPTH`
        chunks are of the same one.
        """
        owner = self._loaded.store.owners_of(chunk for chunk, _ in order)
        counts = Counter(owner.get(chunk) for chunk, _ in order[:MIN_DEPTH])
        first: dict[int | None, tuple[int, float]] = {}
        for one in order:
            first.setdefault(owner.get(one[0]), one)
        return list(first.values()), {one[0]: max(0, counts[key] - 1) for key, one in first.items()}

    def _document_ranks(self, chunks: list[int]) -> dict[int, int]:
        """Document → its rank by the best of its ranked `chunks`."""
        owner = self._loaded.store.owners_of(chunks)
        return {
            document: rank
            for rank, document in enumerate(
                dict.fromkeys(owner[one] for one in chunks if one in owner), 1
            )
        }

    def count_documents(self, rankings: Iterable[Ranking]) -> int:
        """Of how many documents the chunks of rankings are."""
        found = {chunk for ids, _ in rankings for chunk in ids.tolist()}
        return len(set(self._loaded.store.owners_of(found).values()))

    def _present(
        self, order: Sequence[tuple[int, float]], top: int, presence: Presence
    ) -> list[PresentPassage]:
        """The first `top` of `order` whose documents still exist: an index may name some that
        were deleted since, and so may the store. Of documents with the same text the first
        stands for all.
        """
        present: list[PresentPassage] = []
        by_text: dict[str, list[PresentPassage]] = {}
        there: dict[int, Document | None] = {}
        for start in range(0, len(order), top):
            block = order[start : start + top]
            chunks = self._loaded.store.chunks_by_id(chunk_id for chunk_id, _ in block)
            for chunk_id, score in block:
                if (chunk := chunks.get(chunk_id)) is None:
                    continue
                is_full = len(present) >= top
                if is_full and chunk.content_hash not in by_text:
                    continue
                if chunk.document_id not in there:
                    document = self._loaded.store.document_card(chunk.document_id)
                    there[document.id] = document if presence.has(document) else None
                found = there[chunk.document_id]
                if found is None:
                    continue
                alike = by_text.setdefault(chunk.content_hash, [])
                same = next((one for one in alike if self._is_copy(found, one.document)), None)
                if same is not None:
                    same.documents.add(found.id)
                elif not is_full:
                    alike.append(PresentPassage(chunk, found, score, {found.id}))
                    present.append(alike[-1])
        return present

    def _is_copy(self, document: Document, other: Document) -> bool:
        """Whether another document has the same text; entries of a data set are no files, and
        each stands for itself.
        """
        if (
            document.id == other.id
            or document.external_id is not None
            or other.external_id is not None
        ):
            return False
        return self._loaded.store.have_same_text(document.id, other.id)


def undated(hits: Sequence[Hit]) -> str:
    """What to say of hits by date whose dates say little; empty where they differ and are the
    documents' own.
    """
    if len(hits) > 1 and len({day(hit.date) for hit in hits}) == 1:
        return f"All hits are of {day(hits[0].date)}: sorting by date changes nothing."
    if hits and all(hit.changed is None and hit.created is None for hit in hits):
        return (
            "These documents say no date: they are sorted by that of their files, which copying may"
            " have changed."
        )
    return ""


def newest_first(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Hits by day, those of one day best first, numbered anew."""
    dated = sorted(hits, key=lambda hit: day(hit.date), reverse=True)
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(dated, 1))
