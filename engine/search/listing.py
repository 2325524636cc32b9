"""Hits from ranked chunks: with snippets, without missing documents, optionally by document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.core.dates import day
from engine.core.messages.search import Hit, Ranked
from engine.core.records import Chunk, Document
from engine.search.filters import date_of
from engine.search.fusing import Fused, Ranking
from engine.search.loaded import LoadedProject
from engine.search.presence import Presence
from engine.search.snippets import first_shown, page_at, snippet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_DEPTH = 100
"""Minimum number of chunks that each ranker returns."""

ScoredChunk = tuple[int, float]
"""Chunk id and score."""


@dataclass(frozen=True)
class PresentPassage:
    """A passage whose document exists."""

    chunk: Chunk
    document: Document
    score: float
    documents: set[int]
    """Ids of the document and of its copies: documents with the same text."""


@dataclass(frozen=True)
class ChunkGroups:
    """The chunks to list; a chunk may stand for others of the same document."""

    order: list[ScoredChunk]
    """The chunks, best first."""
    more: dict[int, int] = field(default_factory=dict)
    """Chunk id → number of other chunks that it stands for."""


@dataclass(frozen=True)
class RankerPlaces:
    """The scores and ranks by one ranker; ranks count from 1."""

    scores: NDArray[np.floating[Any]]
    """Scores in order of rank (n,)."""
    chunks: dict[int, int]
    """Chunk id → rank."""
    documents: dict[int, int]
    """Document id → rank; empty unless hits are grouped by document."""

    def find(self, chunk: Chunk) -> Ranked | None:
        """Return rank and score of a chunk, or None if the ranker has not found it."""
        rank = self.chunks.get(chunk.id)
        if rank is None:
            return None
        score = float(self.scores[rank - 1])
        document_rank = self.documents.get(chunk.document_id, 0)
        return Ranked(rank, score, document_rank)


@dataclass(frozen=True)
class Listing:
    """Turns ranked chunks into hits."""

    _loaded: LoadedProject

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
        """Return the first `top` passages of `fused` whose documents exist, as hits for `query`.

        `rankings`: the rankings that were fused, by ranker. `by_document`: return only the best
        passage of each document. `with_stop_words`: mark stop words as matches, too.
        """
        places = {}
        for ranker, ranking in rankings.items():
            places[ranker] = self._find_places(ranking, by_document=by_document)
        if by_document:
            groups = self._group_by_document(fused.order)
        else:
            groups = ChunkGroups(fused.order)
        hits = []
        present = self._find_present(
            groups.order,
            top,
            presence,
        )
        for rank, passage in enumerate(present, 1):
            chunk = passage.chunk
            ranked = {}
            for ranker, ranker_places in places.items():
                place = ranker_places.find(chunk)
                if place:
                    ranked[ranker] = place
            hit = self._build_hit(
                query,
                passage,
                with_stop_words=with_stop_words,
            )
            hits.append(
                replace(
                    hit,
                    rank=rank,
                    rankers=ranked,
                    shares=fused.shares(chunk.id),
                    more=groups.more.get(chunk.id, 0),
                )
            )
        return tuple(hits)

    def sort_by_date(self, fused: Fused) -> Fused:
        """Sort chunks by the day of their documents, the newest first.

        Chunks of the same day keep their order.
        """
        documents = self._loaded.documents()
        days = {document.id: day(date_of(document)) for document in documents.values()}
        owners = self._loaded.store.owners_of(chunk_id for chunk_id, _ in fused.order)

        def find_day(scored: ScoredChunk) -> str:
            """Return the day of a chunk's document, empty if the document was deleted."""
            chunk_id, _ = scored
            return days.get(owners.get(chunk_id, 0), "")

        return replace(fused, order=sorted(fused.order, key=find_day, reverse=True))

    def _build_hit(
        self,
        query: str,
        passage: PresentPassage,
        *,
        with_stop_words: bool,
    ) -> Hit:
        """Return a passage as a hit that has no rank yet."""
        from engine.lexical.matches import matched_spans

        chunk = passage.chunk
        document = passage.document
        if with_stop_words:
            language = "none"
        else:
            language = self._loaded.language(document)
        matches = matched_spans(
            query,
            chunk.text,
            language,
        )
        text, marks = snippet(chunk.text, matches)
        page = chunk.page
        place = f"page {page}" if page else ""
        if chunk.pages:
            offset = first_shown(chunk.text, matches)
            page, place = page_at(chunk.pages, offset)
        return Hit(
            rank=0,
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
            place=place,
            author=document.author,
            tags=document.tags,
            created=document.created,
            changed=document.changed,
            id=document.stable_id,
            copies=len(passage.documents),
        )

    def _find_places(self, ranking: Ranking, *, by_document: bool) -> RankerPlaces:
        """Return a ranking with its ranks by chunk, and by document if hits are grouped so."""
        ids, scores = ranking
        chunks = {chunk_id: rank for rank, chunk_id in enumerate(ids.tolist(), 1)}
        if by_document:
            documents = self._rank_documents(list(chunks))
        else:
            documents = {}
        return RankerPlaces(scores, chunks, documents)

    def _rank_documents(self, chunks: list[int]) -> dict[int, int]:
        """Return the rank of each document, by the best of its ranked `chunks`."""
        owners = self._loaded.store.owners_of(chunks)
        ranks: dict[int, int] = {}
        for chunk_id in chunks:
            if chunk_id in owners:
                ranks.setdefault(owners[chunk_id], len(ranks) + 1)
        return ranks

    def _group_by_document(self, order: Sequence[ScoredChunk]) -> ChunkGroups:
        """Keep the best chunk of each document.

        `more` counts the document's other chunks among the first `MIN_DEPTH` of `order`.
        """
        owners = self._loaded.store.owners_of(chunk_id for chunk_id, _ in order)
        best: dict[int | None, ScoredChunk] = {}
        more: dict[int, int] = {}
        for place, scored in enumerate(order):
            chunk_id, _ = scored
            document_id = owners.get(chunk_id)
            best_id, _ = best.setdefault(document_id, scored)
            if best_id != chunk_id and place < MIN_DEPTH:
                more[best_id] = more.get(best_id, 0) + 1
        return ChunkGroups(list(best.values()), more)

    def count_documents(self, rankings: Iterable[Ranking]) -> int:
        """Return the number of documents that the ranked chunks belong to."""
        chunks: set[int] = set()
        for ids, _ in rankings:
            chunks.update(ids.tolist())
        owners = self._loaded.store.owners_of(chunks)
        return len(set(owners.values()))

    def _find_present(
        self, order: Sequence[ScoredChunk], top: int, presence: Presence
    ) -> list[PresentPassage]:
        """Return the first `top` passages of `order` whose documents still exist.

        The index and the database may contain documents whose files were deleted since the last
        run. Of several documents with the same text, only the first is listed.
        """
        present: list[PresentPassage] = []
        by_text: dict[str, list[PresentPassage]] = {}
        documents: dict[int, Document | None] = {}
        for start in range(0, len(order), MIN_DEPTH):
            block = order[start : start + MIN_DEPTH]
            ids = [chunk_id for chunk_id, _ in block]
            if len(present) >= top:
                # The list is full: further chunks only matter as copies of listed passages.
                hashes = self._loaded.store.hashes_of(ids)
                ids = [chunk_id for chunk_id in ids if hashes.get(chunk_id) in by_text]
            chunks = self._loaded.store.chunks_by_id(ids)
            for chunk_id, score in block:
                chunk = chunks.get(chunk_id)
                is_full = len(present) >= top
                if chunk is None or (is_full and chunk.content_hash not in by_text):
                    continue
                # Look for a document's file only once, however many passages it has.
                if chunk.document_id not in documents:
                    card = self._loaded.store.document_card(chunk.document_id)
                    documents[card.id] = card if presence.has(card) else None
                document = documents[chunk.document_id]
                if document is None:
                    continue
                passages = by_text.setdefault(chunk.content_hash, [])
                original = self._find_original(document, passages)
                if original is not None:
                    original.documents.add(document.id)
                elif not is_full:
                    passage = PresentPassage(
                        chunk,
                        document,
                        score,
                        {document.id},
                    )
                    passages.append(passage)
                    present.append(passage)
        return present

    def _find_original(
        self, document: Document, passages: Iterable[PresentPassage]
    ) -> PresentPassage | None:
        """Return the passage whose document has the same text as `document`, if any."""
        for passage in passages:
            if self._is_copy(document, passage.document):
                return passage
        return None

    def _is_copy(self, document: Document, other: Document) -> bool:
        """Return whether two documents are different files with the same text.

        Entries of a data set are not files and never count as copies.
        """
        if document.id == other.id:
            return False
        if document.is_entry or other.is_entry:
            return False
        return self._loaded.store.have_same_text(document.id, other.id)


def describe_dates(hits: Sequence[Hit]) -> str:
    """Return a note for hits sorted by date if the dates say little, otherwise an empty text.

    They say little if all are equal, or if no document states its own date.
    """
    days = {day(hit.date) for hit in hits}
    if len(hits) > 1 and len(days) == 1:
        return f"These hits are all of {day(hits[0].date)}: they are sorted by score."
    dated = [hit for hit in hits if hit.changed is not None or hit.created is not None]
    if hits and not dated:
        return (
            "These documents state no date: they are sorted by the dates of their files, which"
            " copying may have changed."
        )
    return ""


def sort_newest_first(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Sort hits by day, the newest first and those of one day by score, and renumber them."""
    by_day = sorted(
        hits,
        key=lambda hit: day(hit.date),
        reverse=True,
    )
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(by_day, 1))
