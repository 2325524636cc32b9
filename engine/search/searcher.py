"""Answers searches over the current artifacts of a project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from unicodedata import category

from engine.core.errors import UsageError
from engine.core.messages.search import MODES, Explained, Found, Hit, Mode, RankComparison, Ranked
from engine.core.records import Chunk, Document
from engine.corpus.formats import STREAMED
from engine.corpus.invisible import visible
from engine.lexical.filenames import FilenameMatch
from engine.project.control import run_hints
from engine.project.folder import ProjectFolder
from engine.search.explaining import Explainer, encoder_name
from engine.search.filters import SearchFilter, facets, unmet
from engine.search.fusing import Fused, Ranking, fuse
from engine.search.loaded import Loaded
from engine.search.presence import Presence
from engine.search.rankers import Rankers, Rankings, without_weak
from engine.search.snippets import first_shown, page_at, snippet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SNIPPET_WIDTH = 300  # characters
MIN_DEPTH = 100
EMPTY, NO_WORD = "The query is empty.", "The query holds no word: type a word or a number to look for."


P = ParamSpec("P")
T = TypeVar("T")


def _with_run_hints(method: Callable[Concatenate[Searcher, P], T]) -> Callable[Concatenate[Searcher, P], T]:
    """What is not there yet is not to be built by the user where a run is building it."""

    @wraps(method)
    def with_hints(self: Searcher, /, *arguments: P.args, **named: P.kwargs) -> T:
        with run_hints(self.project):
            return method(self, *arguments, **named)

    return with_hints


class Searcher:
    """Loads what a mode needs when it is first asked for: BM25 never waits for the encoder. Not for several threads."""

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        with run_hints(project):
            self._loaded = Loaded(project)
        self._rankers, self._explainer = Rankers(self._loaded), Explainer(self._loaded)

    def close(self) -> None:
        """Let go of the database."""
        self._loaded.close()

    @_with_run_hints
    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        top: int | None = None,
        where: SearchFilter | None = None,
        snippet_width: int = SNIPPET_WIDTH,
        with_facets: bool = False,
    ) -> Found:
        """The best `top` chunks for `query`, best first; settings from project.toml where an argument is None.

        With `with_facets`, also the types, authors, languages, years and folders of the documents found (see `Found`).

        Hybrid search goes on with one ranker, and says so in `notes`, when the other is not built, damaged or fails.
        Raises UsageError, SettingsError, NotBuiltError, DamagedError, ModelError, ResourceError.
        """
        self._loaded.follow_repair()
        query = _clean(query)
        settings = self._loaded.settings().search
        mode, top = mode or settings.mode, settings.top if top is None else top
        _check(mode, top)
        if problem := unsearchable(query):
            return Found(query, mode, (), (problem,))
        documents, match = self._match(query, where, settings.named_documents)
        depth = max(MIN_DEPTH, 5 * top)
        allowed = self._chunks_of(documents)
        rankings = self._rankers.rank(match.text, mode, depth, allowed, all_matching=with_facets)
        found, notes, commands = rankings.by_ranker, rankings.notes, rankings.commands
        if settings.hide_weak and mode == "semantic":
            least, reason = self._loaded.threshold()
            found["semantic"], note = without_weak(found["semantic"], top, least, reason)
            notes.append(note)
            commands += ["evaluate"] if least is None else []
        if match.names:
            notes.insert(0, f"Only in {' and '.join(match.names)}, which the query names.")
        for ranker in found:
            if behind := self._loaded.behind(ranker):
                notes.append(behind.text)
                commands += [behind.command] if behind.command else []
        if where is not None and not where.empty:
            notes += unmet(where, self._loaded.documents().values())
        fusion = self._loaded.fusion(settings)
        fused = fuse(self._rankers.cross_scored(match.text, rankings, fusion), fusion)
        presence = Presence(self.project.path)
        hits = self._hits(match.text, found, fused, top, snippet_width, presence)
        if outdated := presence.notes(self.project.argument):
            notes += outdated
            commands.append("ingest")
        facets_found = self._facets(rankings) if with_facets else {}
        return Found(query, mode, hits, tuple(filter(None, notes)), facets_found, tuple(commands))

    @_with_run_hints
    def search_base(self, query: str, top: int) -> tuple[Hit, ...]:
        """What the base encoder finds, where search uses another, so that people judge its hits as well.

        Nothing where its vectors are not at hand. Raises as `search`.
        """
        self._loaded.follow_repair()
        query, settings = _clean(query), self._loaded.settings().search
        if unsearchable(query):
            return ()
        documents, match = self._match(query, None, settings.named_documents)
        ranking = self._explainer.base_ranking(match.text, 2 * top, self._chunks_of(documents))
        if ranking is None:
            return ()
        fused, presence = fuse({"base": ranking}, settings), Presence(self.project.path)
        return self._hits(match.text, {"base": ranking}, fused, top, SNIPPET_WIDTH, presence)

    @_with_run_hints
    def document(self, document_id: int) -> Document | None:
        """A document with its text, for a preview."""
        self._loaded.follow_repair()
        return self._loaded.store.document(document_id)

    @_with_run_hints
    def explain(self, query: str, chunk_ids: Sequence[int]) -> Explained:
        """Where the encoder in use and the base encoder put these chunks among all for `query`: did the adapter move them?

        A chunk that is not in the vector index, or whose document was deleted, has a rank by neither. Raises as `search`.
        """
        self._loaded.follow_repair()
        query = _clean(query)
        if problem := unsearchable(query):
            artifact, _ = self._loaded.vector_index()
            return Explained(encoder_name(artifact.info), {row: RankComparison() for row in chunk_ids}, problem)
        _, match = self._match(query, None, self._loaded.settings().search.named_documents)
        return self._explainer.explain(match.text, chunk_ids)

    def warm_up(self, mode: Mode) -> None:
        """Load what a mode needs, so that the first search is quick."""
        self.search("warm up", mode=mode, top=1)

    def _match(self, query: str, where: SearchFilter | None, named: bool) -> tuple[set[int] | None, FilenameMatch]:
        """The documents to look in, None for all, and what to look for in them.

        Those that the query names (`named`: whether that counts), unless the filter lets none of them pass.
        """
        filtered = None if where is None or where.empty else self._allowed(where)
        match = self._loaded.document_names().match(query) if named and "." in query else FilenameMatch(query)
        if not match.documents:
            return filtered, match
        both = set(match.documents) if filtered is None else filtered & match.documents
        return (both, match) if both else (filtered, FilenameMatch(query))

    def _allowed(self, where: SearchFilter) -> set[int]:
        store = self._loaded.store
        return where.allowed(self._loaded.documents().values(), lambda: store.paths_of(STREAMED))

    def _chunks_of(self, documents: set[int] | None) -> NDArray[np.int64] | None:
        """Ids of the chunks of documents; None for all."""
        if documents is None:
            return None
        import numpy as np

        chunks, owners = self._loaded.chunk_owners()
        return chunks[np.isin(owners, list(documents))]

    def _facets(self, rankings: Rankings) -> dict[str, dict[str, int]]:
        import numpy as np

        found = [] if rankings.matching is None else [rankings.matching]
        if "semantic" in rankings.by_ranker:
            found.append(rankings.by_ranker["semantic"][0][:MIN_DEPTH])
        chunks, owners = self._loaded.chunk_owners()
        documents = set(owners[np.isin(chunks, np.concatenate(found))].tolist())
        return facets(one for one in self._loaded.documents().values() if one.id in documents)

    def _hits(
        self, query: str, rankings: dict[str, Ranking], fused: Fused, top: int, snippet_width: int, presence: Presence
    ) -> tuple[Hit, ...]:
        from engine.lexical.analysis import matched_spans

        places = {name: {int(c): n for n, c in enumerate(ids, 1)} for name, (ids, _) in rankings.items()}
        hits: list[Hit] = []
        present = self._present(fused.order, top, presence)
        for chunk, document, score in present:
            ranks = {
                name: Ranked(place[chunk.id], float(rankings[name][1][place[chunk.id] - 1]))
                for name, place in places.items()
                if chunk.id in place
            }
            matches = matched_spans(query, chunk.text, self._loaded.language(document))
            text, marks = snippet(chunk.text, matches, snippet_width)
            page, place = chunk.page, f"page {chunk.page}" if chunk.page else ""
            if chunk.pages:
                page, place = page_at(chunk.pages, first_shown(chunk.text, matches, snippet_width))
            hits.append(Hit(
                rank=len(hits) + 1, score=score, path=document.path,
                source=str(self.project.path / document.source), title=document.title, headings=chunk.headings,
                snippet=text, marks=marks, format=document.format, modified=document.modified, chunk_id=chunk.id,
                document_id=document.id, start=chunk.start, end=chunk.end, line=chunk.line, page=page, rankers=ranks,
                shares=fused.shares(chunk.id), place=place, author=document.author, created=document.created,
                changed=document.changed,
            ))  # fmt: skip
        return tuple(hits)

    def _present(
        self, order: Sequence[tuple[int, float]], top: int, presence: Presence
    ) -> list[tuple[Chunk, Document, float]]:
        """The first `top` of `order` whose documents still exist: an index may name some that were deleted since, and so may the
        store.
        """
        present: list[tuple[Chunk, Document, float]] = []
        there: dict[int, Document | None] = {}
        for start in range(0, len(order), 2 * top):
            block = order[start : start + 2 * top]
            chunks = self._loaded.store.chunks_by_id(chunk_id for chunk_id, _ in block)
            for chunk_id, score in block:
                if len(present) >= top:
                    return present
                if (chunk := chunks.get(chunk_id)) is None:
                    continue
                if chunk.document_id not in there:
                    document = self._loaded.store.document_card(chunk.document_id)
                    there[document.id] = document if presence.has(document) else None
                if found := there[chunk.document_id]:
                    present.append((chunk, found, score))
        return present


def unsearchable(query: str) -> str:
    """Why nothing can be looked for: there is no letter or digit of any script. An encoder ranks all chunks even for "!!!"."""
    if any(category(char)[0] in "LN" for char in query):
        return ""
    return NO_WORD if query.strip() else EMPTY


def _clean(query: str) -> str:
    return visible(query.encode("utf-8", "replace").decode())  # half a surrogate pair is no text


def _check(mode: str, top: int) -> None:
    if mode not in MODES:
        raise UsageError(
            f"There is no search mode '{mode}'.", "The modes are " + ", ".join(MODES) + ".", "Name one of them.",
            code="search-mode-unknown",
        )  # fmt: skip
    if top < 1:
        raise UsageError(
            f"{top} hits cannot be shown.", "The number of hits is at least 1.", "Ask for one or more.",
            code="hits-too-few",
        )  # fmt: skip
