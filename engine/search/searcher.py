"""Answers searches over the current artifacts of a project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from unicodedata import category

from engine.core.characters import visible
from engine.core.errors import EngineError, UsageError, unknown
from engine.core.messages.search import (
    MODE_OF_NAME,
    MODES,
    Explained,
    Found,
    Hit,
    Mode,
    RankComparison,
)
from engine.core.records import Document
from engine.corpus.scan.formats import STREAMED
from engine.lexical.filenames import FilenameMatch
from engine.project.control import run_hints
from engine.project.folder import ProjectFolder
from engine.search.encoding import EncodersInUse
from engine.search.explaining import Explainer, encoder_name
from engine.search.filters import SearchFilter, facets, unknown_format, unmet
from engine.search.fusing import fuse
from engine.search.listing import MIN_DEPTH, Listing, newest_first, undated
from engine.search.loaded import Loaded
from engine.search.presence import Presence
from engine.search.rankers import Rankers, Rankings, codes_first, encoder_mode, without_weak
from engine.search.reranked import Ordered, Reranking, unfinished, with_scores
from engine.search.syntax import ParsedQuery, parse
from engine.search.typed import TypedQueries, Wording, without_names, without_word

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMPTY = "The query is empty."
NO_WORD = "The query has no words: type a word or a number to look for."


P = ParamSpec("P")
T = TypeVar("T")


def _with_run_hints(
    method: Callable[Concatenate[Searcher, P], T],
) -> Callable[Concatenate[Searcher, P], T]:
    """What is not there yet is not to be built by the user where a run is building it; what was
    read while it was written to is read again.
    """

    @wraps(method)
    def with_hints(self: Searcher, /, *arguments: P.args, **named: P.kwargs) -> T:
        with run_hints(self.project):
            try:
                found = method(self, *arguments, **named)
            except EngineError:
                if not self._loaded.store.is_stale:
                    raise
            else:
                if not self._loaded.store.is_stale:
                    return found
            return method(self, *arguments, **named)

    return with_hints


class Searcher:
    """Loads what a mode needs when it is first asked for: BM25 never waits for the encoder.

    Not for several threads.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        with run_hints(project):
            self._loaded = Loaded(project)
        self._rankers, self._explainer = Rankers(self._loaded), Explainer(self._loaded)
        self._typed, self._listing = TypedQueries(self._loaded), Listing(self._loaded)
        self.encoders = EncodersInUse(self._loaded)
        self.reranking = Reranking(self._loaded)

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
        with_facets: bool = False,
        syntax: bool = False,
        by_document: bool = False,
        by_date: bool = False,
        min_score: float | None = None,
        rerank: bool | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Found:
        """The best `top` chunks for `query`, best first; settings from project.toml where an
        argument is None.

        With `with_facets`, also the types, authors, languages, years and folders of the documents
        found (see `Found`). `syntax`: the query may hold operators (`engine.search.syntax`).
        `by_document`: the best chunk of each document. `by_date`: newest first, the best `top` or,
        where the query says what hits must hold, all that do. `min_score`: the least of a hit.
        `rerank`: whether the reranker puts the first passages in order, None: if it is in use;
            `stop` ends that early.

        Hybrid search goes on with one ranker, and says so in `notes`, when the other is not built,
        damaged or fails. Raises UsageError, SettingsError, NotBuiltError, DamagedError, ModelError,
        ResourceError.
        """
        self._loaded.follow_repair()
        query = _clean(query)
        if syntax:
            parsed = parse(query)
        else:
            parsed = ParsedQuery(query)
        settings = self._loaded.settings().search
        mode = mode or settings.mode_in_json
        top = settings.top if top is None else top
        _check(mode, top)
        if parsed.like:
            like = self._typed.like(parsed)
        else:
            like = None
        if problem := self._unclear(query, parsed, like):
            return Found(query, mode, (), (problem.what,), problem=problem)
        documents, match = self._match(parsed.text, where, settings.named_documents)
        parsed = without_names(parsed, match.names)
        allowed = self._typed.allowed(parsed, documents, like)
        wording = self._typed.wording(parsed, match.text, like, allowed)
        rankings, depth = self._ranked(wording, mode, top, allowed, by_document, with_facets)
        if settings.hide_weak and mode == "semantic":
            self._hide_weak(rankings, top)
        self._note(rankings, mode, parsed, match, where)
        suggestion, note = (
            self._typed.corrected(query, match.text, match.names) if syntax else ("", "")
        )
        fusion = self._loaded.fusion(settings)
        ordered = Ordered(fuse(self._rankers.cross_scored(wording, rankings, fusion), fusion))
        if not by_date and like is None:
            ordered = self.reranking.order(mode, rerank, wording.meaning, ordered.fused, stop)
        if like:
            fused = self._typed.long_first(ordered.fused, like)
        else:
            fused = ordered.fused
        fused = codes_first(fused, match.text, rankings, allowed).down_to(min_score)
        presence = Presence(self.project.path)
        if by_date and (parsed.required or parsed.titles):
            shown = depth
        else:
            shown = top
        hits = self._listing.hits(
            wording.keywords,
            rankings.by_ranker,
            fused,
            shown,
            presence,
            by_document=by_document,
            with_stop_words=rankings.only_stop_words,
        )
        if by_date:
            hits = newest_first(hits)[:top]
        else:
            hits = with_scores(hits, ordered.scores)
        rankings.notes += [note, unfinished(ordered.reranked), undated(hits) if by_date else ""]
        if not hits:
            rankings.notes.append(
                self._typed.why_nothing(parsed, where, documents, allowed, min_score)
            )
        elif like is None and rankings.without_words:
            rankings.notes.append(
                f"{without_word(parsed, where, allowed)}; these are the nearest by meaning."
            )
        if outdated := presence.notes(self.project.argument):
            rankings.notes += outdated
            rankings.commands.append("ingest")
        return Found(
            query,
            mode,
            hits,
            tuple(filter(None, rankings.notes)),
            self._facets(rankings) if with_facets else {},
            tuple(rankings.commands),
            suggestion,
            ordered.reranked,
            ordered.can_rerank,
            unknown_format(where.formats, self._loaded.documents().values()) if where else None,
        )

    def _ranked(
        self,
        wording: Wording,
        mode: Mode,
        top: int,
        allowed: NDArray[np.int64] | None,
        by_document: bool,
        all_matching: bool,
    ) -> tuple[Rankings, int]:
        """The rankings, and how many chunks of each were asked for: more where one long document
        has all the places.
        """
        depth = max(MIN_DEPTH, 5 * top)
        while True:
            found = self._rankers.rank(wording, mode, depth, allowed, all_matching=all_matching)
            has_more = by_document and found.longest >= depth
            if not has_more or self._listing.count_documents(found.by_ranker.values()) >= top:
                return found, depth
            depth *= 10

    def _hide_weak(self, rankings: Rankings, top: int) -> None:
        least, reason = self._loaded.threshold()
        rankings.by_ranker["semantic"], note = without_weak(
            rankings.by_ranker["semantic"], top, least, reason
        )
        rankings.notes.append(note)
        rankings.commands += ["evaluate"] if least is None else []

    def _note(
        self,
        rankings: Rankings,
        mode: Mode,
        parsed: ParsedQuery,
        match: FilenameMatch,
        where: SearchFilter | None,
    ) -> None:
        """Say where was looked, what the indexes do not know yet, and how the query was taken."""
        if match.names:
            rankings.notes.insert(0, f"Only in {' and '.join(match.names)}, which the query names.")
        for ranker in rankings.by_ranker:
            if behind := self._loaded.behind(ranker, encoder_mode(mode)):
                rankings.notes.append(behind.text)
                rankings.commands += [behind.command] if behind.command else []
        if where:
            rankings.notes += unmet(where, self._loaded.documents().values())
        if parsed.unclosed:
            phrase = f"{parsed.unclosed} is searched as a phrase, its last word as a prefix"
            rankings.notes.append(f"The quotation mark is not closed: {phrase}.")

    def _unclear(self, query: str, parsed: ParsedQuery, like: Document | None) -> UsageError | None:
        """Why nothing can be looked for; None where something can."""
        if why := unsearchable(query):
            return UsageError(why, code="query-empty")
        if parsed.like:
            what = f"There is no document {parsed.like}: name its id or its path."
            if like:
                return None
            return UsageError(what, code="document-missing")
        what = (
            "The query only says what to leave out. Type a word to look for as well, as in: report"
            " -draft"
        )
        if unsearchable(parsed.text):
            return UsageError(what, code="query-empty")
        return None

    @_with_run_hints
    def search_unused(self, query: str, top: int) -> tuple[Hit, ...]:
        """What the encoders that are not in use find, base and adapted, `top` hits each, so that
        people judge these as well.

        Nothing where their vectors are not at hand. Raises as `search`.
        """
        self._loaded.follow_repair()
        query = _clean(query)
        settings = self._loaded.settings().search
        if unsearchable(query):
            return ()
        documents, match = self._match(query, None, settings.named_documents)
        presence = Presence(self.project.path)
        hits = dict[int, Hit]()
        for ranking in self._explainer.unused_rankings(
            match.text, 2 * top, self._typed.chunks_of(documents)
        ):
            fused = fuse({"semantic": ranking}, settings)
            found = self._listing.hits(match.text, {"semantic": ranking}, fused, top, presence)
            hits |= {hit.chunk_id: hit for hit in found}
        return tuple(hits.values())

    @_with_run_hints
    def document(self, document_id: int) -> Document | None:
        """A document with its text, for a preview."""
        self._loaded.follow_repair()
        return self._loaded.store.document(document_id)

    @_with_run_hints
    def document_of(self, stable_id: str) -> Document | None:
        """A document with its text, by the id that no run changes; None where there is none, or
        its file is gone.
        """
        self._loaded.follow_repair()
        found = next(
            (one for one in self._loaded.documents().values() if one.stable_id == stable_id), None
        )
        there = found is not None and Presence(self.project.path).has(found)
        if found and there:
            return self._loaded.store.document(found.id)
        return None

    @_with_run_hints
    def facets(self) -> dict[str, dict[str, int]]:
        """The types, authors, languages, years and folders of all documents (see `Found`)."""
        self._loaded.follow_repair()
        return facets(self._loaded.documents().values())

    @_with_run_hints
    def explain(self, query: str, chunk_ids: Sequence[int], mode: Mode | None = None) -> Explained:
        """Say where the encoder in use in `mode` and the base encoder put these chunks among all
        for `query`.

        A chunk that is not in the vector index, or whose document was deleted, has a rank by
        neither. Raises as `search`.
        """
        self._loaded.follow_repair()
        query = _clean(query)
        encoder = encoder_mode(mode or self._loaded.settings().search.mode_in_json)
        if problem := unsearchable(query):
            artifact = self._loaded.vectors(encoder)
            return Explained(
                encoder_name(artifact.info), {row: RankComparison() for row in chunk_ids}, problem
            )
        parsed = parse(query)
        if parsed.like:
            like = self._typed.like(parsed)
        else:
            like = None
        documents, match = self._match(
            parsed.text, None, self._loaded.settings().search.named_documents
        )
        if parsed.prefixes:
            allowed = self._typed.allowed(parsed, documents, like)
        else:
            allowed = None
        wording = self._typed.wording(parsed, match.text, like, allowed)
        return self._explainer.explain(wording.meaning, chunk_ids, encoder)

    def may_rerank(self, mode: Mode) -> bool:
        """Whether the reranker may put hits in order that nobody has asked it for."""
        self._loaded.follow_repair()
        return self.reranking.decided(mode) is not None

    def warm_up(self, mode: Mode) -> None:
        """Load what a mode needs, so that the first search is quick."""
        self.search("warm up", mode=mode, top=1, rerank=False)

    def _match(
        self, query: str, where: SearchFilter | None, named: bool
    ) -> tuple[set[int] | None, FilenameMatch]:
        """The documents to look in, None for all, and what to look for in them.

        Those that the query names (`named`: whether that counts), unless the filter lets none of
        them pass.
        """
        if where is None or where.empty:
            filtered = None
        else:
            filtered = self._allowed(where)
        if named and "." in query:
            match = self._loaded.document_names().match(query)
        else:
            match = FilenameMatch(query)
        if not match.documents:
            return filtered, match
        if filtered is None:
            both = set(match.documents)
        else:
            both = filtered & match.documents
        if both:
            return (both, match)
        return (filtered, FilenameMatch(query))

    def _allowed(self, where: SearchFilter) -> set[int]:
        store = self._loaded.store
        return where.allowed(self._loaded.documents().values(), lambda: store.paths_of(STREAMED))

    def _facets(self, rankings: Rankings) -> dict[str, dict[str, int]]:
        import numpy as np

        if rankings.matching is None:
            found = []
        else:
            found = [rankings.matching]
        if "semantic" in rankings.by_ranker:
            found.append(rankings.by_ranker["semantic"][0][:MIN_DEPTH])
        chunks, owners = self._loaded.chunk_owners()
        documents = set(owners[np.isin(chunks, np.concatenate(found))].tolist())
        return facets(one for one in self._loaded.documents().values() if one.id in documents)


def unsearchable(query: str) -> str:
    """Why nothing can be looked for: there is no letter or digit of any script.

    An encoder ranks all chunks even for "!!!".
    """
    if any(category(char)[0] in "LN" for char in query):
        return ""
    return NO_WORD if query.strip() else EMPTY


def _clean(query: str) -> str:
    return visible(query.encode("utf-8", "replace").decode())  # half a surrogate pair is no text


def _check(mode: str, top: int) -> None:
    if mode not in MODES:
        raise unknown("search mode", str(mode), MODE_OF_NAME, code="search-mode-unknown")
    if top < 1:
        raise UsageError(
            f"{top} hits cannot be shown.", "", "Ask for 1 or more.", code="hits-too-few"
        )
