"""Answers searches over the current artifacts of a project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

from engine.core.errors import EngineError, UsageError
from engine.core.records import Chunk, Document
from engine.corpus.formats import STREAMED
from engine.corpus.invisible import visible
from engine.lexical.filenames import FilenameMatch
from engine.project.control import telling_runs, while_running
from engine.project.folder import ProjectFolder
from engine.search.explaining import Explained, Explainer, RankComparison, served_name
from engine.search.filters import SearchFilter, facets, unmet
from engine.search.fusing import Fused, Ranking, fuse
from engine.search.hits import Found, Hit, Ranked
from engine.search.loaded import Loaded
from engine.search.positions import page_at, position
from engine.search.presence import Presence
from engine.search.snippets import first_shown, snippet
from engine.search.weak import without_weak
from engine.search.words import holds_word, symbols
from engine.settings.load import SearchSettings

if TYPE_CHECKING:
    from engine.lexical.index import LexicalIndex

Mode = Literal["hybrid", "semantic", "bm25"]
MODES: tuple[Mode, ...] = ("hybrid", "semantic", "bm25")
SNIPPET_WIDTH = 300  # characters
MIN_DEPTH = 100
EMPTY, NO_WORD = "The query is empty.", "The query holds no word: type a word or a number to look for."


P = ParamSpec("P")
T = TypeVar("T")


def _telling_runs(method: Callable[Concatenate[Searcher, P], T]) -> Callable[Concatenate[Searcher, P], T]:
    """What is not there yet is not to be built by the user where a run is building it."""

    @wraps(method)
    def told(self: Searcher, /, *arguments: P.args, **named: P.kwargs) -> T:
        with telling_runs(self.project):
            return method(self, *arguments, **named)

    return told


class Searcher:
    """Loads what a mode needs when it is first asked for: BM25 never waits for the encoder. Not for several threads."""

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        with telling_runs(project):
            self._loaded = Loaded(project)
        self._explainer = Explainer(self._loaded)

    def close(self) -> None:
        """Let go of the database."""
        self._loaded.close()

    @_telling_runs
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
        settings = self.project.settings().search
        mode, top = mode or settings.mode, settings.top if top is None else top
        _check(mode, top)
        if problem := self._unsearchable(query, mode):
            return Found(query, mode, (), (problem,))
        documents, meant = self._meant(query, where, settings.named_documents)
        depth = max(MIN_DEPTH, 5 * top)
        rankings, notes, index = self._rankings(meant.text, mode, depth, self._chunks_of(documents), settings)
        if settings.hide_weak and mode == "semantic":
            rankings["semantic"], told = without_weak(rankings["semantic"], top, *self._loaded.threshold())
            notes = [*notes, told] if told else notes
        fusion = self._loaded.fusion(settings)
        fused = fuse(self._completed(meant.text, rankings, fusion, index), fusion)
        if meant.names:
            notes = [f"Only in {' and '.join(meant.names)}, which the query names.", *notes]
        notes = [*notes, *filter(None, map(self._loaded.behind, rankings))]
        if where is not None and not where.empty:
            notes = [*notes, *unmet(where, self._loaded.store.documents())]
        counts = self._facets(meant.text, rankings, index, self._chunks_of(documents)) if with_facets else {}
        presence = Presence(self.project.path)
        hits = self._hits(meant.text, rankings, fused, top, snippet_width, presence)
        return Found(query, mode, hits, (*notes, *presence.notes(self.project.argument)), counts)

    @_telling_runs
    def search_base(self, query: str, top: int) -> tuple[Hit, ...]:
        """What the untouched encoder finds, where search serves another or takes off hubs, so that people judge its hits as well.

        Nothing where its vectors are not at hand. Raises as `search`.
        """
        self._loaded.follow_repair()
        query, settings = _clean(query), self.project.settings().search
        if not query.strip() or self._unsearchable(query, "semantic"):
            return ()
        documents, meant = self._meant(query, None, settings.named_documents)
        ranking = self._explainer.base_ranking(meant.text, 2 * top, self._chunks_of(documents))
        if ranking is None:
            return ()
        fused, presence = fuse({"base": ranking}, settings), Presence(self.project.path)
        return self._hits(meant.text, {"base": ranking}, fused, top, SNIPPET_WIDTH, presence)

    @_telling_runs
    def document(self, document_id: int) -> Document | None:
        """A document with its text, for a preview."""
        self._loaded.follow_repair()
        return self._loaded.store.document(document_id)

    @_telling_runs
    def explain(self, query: str, chunk_ids: Sequence[int]) -> Explained:
        """Where the served encoder and the base encoder put these chunks among all for `query`: did the adapter move them?

        A chunk that is not in the vector index, or whose document was deleted, has a rank by neither. Raises as `search`.
        """
        self._loaded.follow_repair()
        query = _clean(query)
        if problem := EMPTY if not query.strip() else self._unsearchable(query, "semantic"):
            artifact, _ = self._loaded.vector_index()
            return Explained(served_name(artifact.info), {row: RankComparison() for row in chunk_ids}, problem)
        _, meant = self._meant(query, None, self.project.settings().search.named_documents)
        return self._explainer.explain(meant.text, chunk_ids)

    def warm_up(self, mode: Mode) -> None:
        """Load what a mode needs, so that the first search is quick."""
        self.search("warm up", mode=mode, top=1)

    def _unsearchable(self, query: str, mode: Mode) -> str:
        """Why nothing can be looked for; empty when something can. An encoder ranks all chunks even for "!!!"."""
        if not query.strip():
            return EMPTY
        return "" if holds_word(query) or self._known(symbols(query), mode) else NO_WORD

    def _known(self, signs: str, mode: Mode) -> bool:
        """Whether the encoder of this mode has a token for any of these signs. BM25 looks for words only."""
        if not signs or mode == "bm25":
            return False
        try:
            artifact, _ = self._loaded.vector_index()
            return self._loaded.query_encoder(artifact).knows(signs)
        except EngineError:
            if mode == "semantic":
                raise
            return False

    def _rankings(
        self, query: str, mode: Mode, depth: int, allowed: set[int] | None, settings: SearchSettings
    ) -> tuple[dict[str, Ranking], list[str], LexicalIndex | None]:
        """The rankings that a mode asks for, what is to be told, and the BM25 index of a hybrid one, which may do without one
        of both."""
        if mode == "bm25":
            return {"bm25": self._bm25(self._loaded.lexical_index(), query, depth, allowed)}, [], None
        if mode == "semantic":
            return {"semantic": self._semantic(query, depth, allowed)}, [], None
        rankings: dict[str, Ranking] = {}
        failures: list[EngineError] = []
        asked: list[tuple[LexicalIndex, str]] = []

        def lexical() -> Ranking:
            asked.append(self._loaded.hybrid_index(settings))
            return self._bm25(asked[0][0], query, depth, allowed)

        parts: dict[str, Callable[[], Ranking]] = {
            "bm25": lexical,
            "semantic": lambda: self._semantic(query, depth, allowed),
        }
        for name, ranker in parts.items():
            try:
                rankings[name] = ranker()
            except EngineError as error:
                failures.append(while_running(self.project, error))
        if not rankings:
            raise failures[0]
        told = [note for _, note in asked if note and "bm25" in rankings]
        told += [f"{' and '.join(rankings)} only: {error.what} {error.to_do}" for error in failures]
        return rankings, told, asked[0][0] if asked else None

    def _completed(
        self, query: str, rankings: dict[str, Ranking], settings: SearchSettings, lexical: LexicalIndex | None
    ) -> dict[str, Ranking]:
        """Where scores are summed, each ranking with the other's chunks, too: what both rankers think of them counts."""
        if lexical is None or len(rankings) < 2 or settings.fusion == "rrf":
            return rankings
        from engine.ranking.fusion import completed

        bm25, semantic = rankings["bm25"], rankings["semantic"]
        try:
            _, index, vector = self._loaded.query_vector(query)
            cosines = index.search_among(vector, bm25[0], len(bm25[0]))
            scores = lexical.scores(query, semantic[0])
        except EngineError:  # an index was replaced a moment ago: the rankings stand for themselves
            return rankings
        return {"bm25": completed(bm25, semantic[0], scores), "semantic": completed(semantic, *cosines)}

    @staticmethod
    def _bm25(index: LexicalIndex, query: str, depth: int, allowed: set[int] | None) -> Ranking:
        if allowed is None:
            return index.search(query, depth)
        import numpy as np

        return index.search_among(query, depth, np.fromiter(allowed, np.int64, len(allowed)))

    def _semantic(self, query: str, depth: int, allowed: set[int] | None) -> Ranking:
        _, index, vector = self._loaded.query_vector(query)
        if allowed is None:
            return index.search(vector, depth)
        import numpy as np

        return index.search_among(vector, np.fromiter(sorted(allowed), np.int64, len(allowed)), depth)

    def _meant(self, query: str, where: SearchFilter | None, named: bool) -> tuple[set[int] | None, FilenameMatch]:
        """The documents to look in, None for all, and what to look for in them.

        Those that the query names (`named`: whether that counts), unless the filter lets none of them pass.
        """
        filtered = None if where is None or where.empty else self._allowed(where)
        meant = self._loaded.document_names().meant_by(query) if named and "." in query else FilenameMatch(query)
        if not meant.documents:
            return filtered, meant
        both = set(meant.documents) if filtered is None else filtered & meant.documents
        return (both, meant) if both else (filtered, FilenameMatch(query))

    def _allowed(self, where: SearchFilter) -> set[int]:
        store = self._loaded.store
        return where.allowed(store.documents(), lambda: store.paths_of(STREAMED))

    def _chunks_of(self, documents: set[int] | None) -> set[int] | None:
        """Ids of the chunks of documents; None for all."""
        if documents is None:
            return None
        owners = self._loaded.store.chunk_owners(superseded=True)
        return {chunk_id for chunk_id, document_id in owners if document_id in documents}

    def _facets(
        self, query: str, rankings: dict[str, Ranking], index: LexicalIndex | None, allowed: set[int] | None
    ) -> dict[str, dict[str, int]]:
        found: set[int] = set()
        for name, (chunks, _) in rankings.items():
            if name == "bm25":
                index = index or self._loaded.lexical_index()
                chunks = self._bm25(index, query, index.count, allowed)[0]
            found.update(chunks.tolist() if name == "bm25" else chunks[:MIN_DEPTH].tolist())
        store = self._loaded.store
        documents = {document for chunk, document in store.chunk_owners(superseded=True) if chunk in found}
        return facets(document for document in store.documents() if document.id in documents)

    def _hits(
        self, query: str, rankings: dict[str, Ranking], fused: Fused, top: int, snippet_width: int, presence: Presence
    ) -> tuple[Hit, ...]:
        places = {name: {int(c): n for n, c in enumerate(ids, 1)} for name, (ids, _) in rankings.items()}
        wholes: dict[int, Document] = {}
        hits: list[Hit] = []
        present = self._present(fused.order, top, presence)
        offsets = {"semantic": self._hub_offsets([chunk.id for chunk, _ in present])} if "semantic" in places else {}
        for chunk, score in present:
            ranks = {
                name: Ranked(
                    place[chunk.id], float(rankings[name][1][place[chunk.id] - 1]), offsets.get(name, {}).get(chunk.id)
                )
                for name, place in places.items()
                if chunk.id in place
            }
            document = self._loaded.store.document_card(chunk.document_id)
            if document.id not in wholes:
                wholes[document.id] = self._loaded.store.document(document.id) or document
            line, page = position(wholes[document.id].text, chunk.text, chunk.start)
            matches = self._matches(query, chunk.text, wholes[document.id])
            text, marks = snippet(chunk.text, matches, snippet_width)
            place = f"page {page}" if page else ""
            if chunk.pages:
                page, place = page_at(chunk.pages, first_shown(chunk.text, matches, snippet_width))
            hits.append(Hit(
                rank=len(hits) + 1, score=score, path=document.path,
                source=str(self.project.path / document.source), title=document.title, headings=chunk.headings,
                snippet=text, marks=marks, format=document.format, modified=document.modified, chunk_id=chunk.id,
                document_id=document.id, start=chunk.start, end=chunk.end, line=line, page=page, rankers=ranks,
                shares=fused.shares(chunk.id), place=place, author=document.author, created=document.created,
                changed=document.changed,
            ))  # fmt: skip
        return tuple(hits)

    def _hub_offsets(self, ids: Sequence[int]) -> dict[int, float]:
        """By chunk, what semantic search has taken from its cosine; empty where it takes off nothing."""
        try:
            return self._loaded.vector_index()[1].hub_offsets(ids)
        except EngineError:  # the index was replaced a moment ago
            return {}

    def _present(self, order: Sequence[tuple[int, float]], top: int, presence: Presence) -> list[tuple[Chunk, float]]:
        """The first `top` of `order` whose documents still exist: an index may name some that were deleted since, and so may the
        store.
        """
        present: list[tuple[Chunk, float]] = []
        there: dict[int, bool] = {}
        for start in range(0, len(order), 2 * top):
            block = order[start : start + 2 * top]
            chunks = self._loaded.store.chunks_by_id(chunk_id for chunk_id, _ in block)
            for chunk_id, score in block:
                if len(present) >= top:
                    return present
                if (chunk := chunks.get(chunk_id)) is None:
                    continue
                if chunk.document_id not in there:
                    there[chunk.document_id] = presence.has(self._loaded.store.document_card(chunk.document_id))
                if there[chunk.document_id]:
                    present.append((chunk, score))
        return present

    def _matches(self, query: str, text: str, document: Document) -> list[tuple[int, int]]:
        from engine.lexical.analysis import matched_spans

        return matched_spans(query, text, self._loaded.language(document))


def _clean(query: str) -> str:
    return visible(query.encode("utf-8", "replace").decode())  # half a surrogate pair is no text


def _check(mode: str, top: int) -> None:
    if mode not in MODES:
        raise UsageError(
            f"There is no search mode '{mode}'.", "The modes are " + ", ".join(MODES) + ".", "Name one of them."
        )
    if top < 1:
        raise UsageError(f"{top} hits cannot be shown.", "The number of hits is at least 1.", "Ask for one or more.")
