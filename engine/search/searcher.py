"""Search over the current artifacts of a project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from unicodedata import category

from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import Explained, Found, Hit, Mode, RankComparison, Search
from engine.core.records import Document
from engine.project.control import run_hints
from engine.project.folder import ProjectFolder
from engine.search.encoding import EncodersInUse
from engine.search.explaining import Explainer, encoder_name
from engine.search.filters import SearchFilter, facets, read_filter, unknown_format
from engine.search.fusing import Fused, fuse
from engine.search.listing import MIN_DEPTH, Listing, describe_dates, sort_newest_first
from engine.search.loaded import LoadedProject
from engine.search.presence import Presence
from engine.search.rankers import Rankers, Rankings, encoder_mode, hide_weak, put_codes_first
from engine.search.reranked import RerankedOrder, Reranking, add_scores, describe_problem
from engine.search.syntax import ParsedQuery
from engine.search.typed import TypedQueries, describe_no_word

if TYPE_CHECKING:
    from engine.core.arrays import Ids

EMPTY = "The query is empty: type a word or a question."
NO_WORD = "The query has no words: type a word or a number to look for."


P = ParamSpec("P")
T = TypeVar("T")


def _on_current_database(
    method: Callable[Concatenate[Searcher, P], T],
) -> Callable[Concatenate[Searcher, P], T]:
    """Call a method on the current database, which a repair may have replaced.

    It is called once more if the database was written to meanwhile. Errors about artifacts that a
    run is still building get a hint.
    """

    @wraps(method)
    def call(self: Searcher, /, *arguments: P.args, **named: P.kwargs) -> T:
        with run_hints(self.project):
            self._loaded.follow_repair()
            try:
                result = method(
                    self,
                    *arguments,
                    **named,
                )
            except EngineError:
                if not self._loaded.store.is_stale:
                    raise
            else:
                if not self._loaded.store.is_stale:
                    return result
            self._loaded.follow_repair()
            return method(
                self,
                *arguments,
                **named,
            )

    return call


class Searcher:
    """Searches a project. What a mode needs is loaded on first use: BM25 never loads the encoder.

    Not thread-safe.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        with run_hints(project):
            self._loaded = LoadedProject(project)
        self._rankers = Rankers(self._loaded)
        self._explainer = Explainer(self._loaded)
        self._typed = TypedQueries(self._loaded)
        self._listing = Listing(self._loaded)
        self.encoders = EncodersInUse(self._loaded, self._typed)
        self.reranking = Reranking(self._loaded)

    def close(self) -> None:
        """Close the database, indexes and encoders."""
        self._loaded.close()

    @_on_current_database
    def search(self, request: Search, stop: Callable[[], bool] = lambda: False) -> Found:
        """Return the best chunks for a request, best first. `stop` ends reranking early.

        If one ranker of hybrid search is not built, damaged or fails, the other answers alone, with
        a note. Raises UsageError, SettingsError, NotBuiltError, DamagedError, ModelError,
        ResourceError.
        """
        parsed = self._typed.read(request.query, syntax=request.syntax)
        settings = self._loaded.settings().search
        mode = request.mode or settings.mode_in_json
        top = request.top or settings.top
        search_filter = read_filter(request)
        problem = self._find_problem(parsed)
        if problem:
            return Found(
                parsed.typed,
                mode,
                (),
                (problem.what,),
                problem=problem,
            )

        # Find the chunks that may be hits, and the texts that rankers search for.
        parsed = self._typed.restrict(parsed, search_filter)
        allowed = self._typed.find_allowed(parsed)
        parsed = self._typed.add_wording(parsed, allowed)

        # Rank, fuse and rerank.
        sorts_all = request.by_date and any(not clause.is_excluded for clause in parsed.clauses)
        depth = max(MIN_DEPTH, 5 * top)
        if sorts_all and allowed is not None:
            depth = max(depth, len(allowed))
        rankings = self._rank(
            request,
            parsed,
            mode,
            top,
            depth,
            allowed,
        )
        if settings.hide_weak and mode == "semantic":
            self._hide_weak(rankings, top)
        self._add_notes(
            rankings,
            mode,
            parsed,
            search_filter,
        )
        suggestion = ""
        if request.syntax:
            suggestion, note = self._typed.suggest_correction(parsed)
            rankings.add_note(note)
        ordered = self._order(
            request,
            mode,
            parsed,
            rankings,
            stop,
        )
        rankings.add_note(describe_problem(ordered.reranked))
        fused = put_codes_first(
            ordered.fused,
            parsed.text_and_codes,
            rankings,
            allowed,
        )
        if sorts_all and allowed is not None and mode != "semantic":
            # Keyword search replaces `word*` by its 20 best completions, so it may miss chunks.
            fused = fused.with_unranked(allowed)
        fused = fused.down_to(request.min_score)
        if sorts_all:
            fused = self._listing.sort_by_date(fused)

        # List the hits.
        presence = Presence(self.project.path)
        hits = self._list_hits(
            request,
            parsed,
            rankings,
            fused,
            top,
            presence,
        )
        hits = add_scores(hits, ordered.scores)
        if not hits:
            reason = self._typed.why_nothing(
                parsed,
                search_filter,
                allowed,
                request.min_score,
            )
            rankings.add_note(reason)
        elif parsed.like_document is None and rankings.without_words:
            no_word = describe_no_word(parsed, search_filter, allowed)
            rankings.add_note(f"{no_word}; these are the nearest by meaning.")
        outdated = presence.notes(self.project.argument)
        if outdated:
            rankings.notes += outdated
            rankings.commands.append("ingest")
        return Found(
            parsed.typed,
            mode,
            hits,
            notes=tuple(rankings.notes),
            facets=self._count_facets(rankings) if request.facets else {},
            commands=tuple(rankings.commands),
            suggestion=suggestion,
            reranked=ordered.reranked,
            can_rerank=ordered.can_rerank,
            problem=unknown_format(search_filter.formats, self._loaded.documents().values()),
        )

    def _rank(
        self,
        request: Search,
        query: ParsedQuery,
        mode: Mode,
        top: int,
        depth: int,
        allowed: Ids | None,
    ) -> Rankings:
        """Return the best `depth` chunks by each ranker.

        If hits are grouped by document, `depth` grows until the chunks belong to `top` documents.
        """
        while True:
            rankings = self._rankers.rank(
                query,
                mode,
                depth,
                allowed,
                all_matching=request.facets,
            )
            if not request.by_document or rankings.longest < depth:
                return rankings
            if self._listing.count_documents(rankings.by_ranker.values()) >= top:
                return rankings
            depth *= 10

    def _order(
        self,
        request: Search,
        mode: Mode,
        parsed: ParsedQuery,
        rankings: Rankings,
        stop: Callable[[], bool],
    ) -> RerankedOrder:
        """Fuse the rankings, then rerank the best chunks.

        Hits of `like:` and hits sorted by date are not reranked.
        """
        settings = self._loaded.settings().search
        fusion = self._loaded.fusion(settings) if mode == "hybrid" else settings
        fused = fuse(self._rankers.cross_score(parsed, rankings, fusion), fusion)
        if parsed.like_document:
            return RerankedOrder(self._typed.put_long_first(fused, parsed.like_document))
        if request.by_date:
            return RerankedOrder(fused)
        return self.reranking.order(
            mode,
            request.rerank,
            parsed.meaning,
            fused,
            stop,
        )

    def _list_hits(
        self,
        request: Search,
        parsed: ParsedQuery,
        rankings: Rankings,
        fused: Fused,
        top: int,
        presence: Presence,
    ) -> tuple[Hit, ...]:
        """Return the first `top` chunks of `fused` as hits, sorted by date if that is asked for."""
        hits = self._listing.hits(
            parsed.keywords,
            rankings.by_ranker,
            fused,
            top,
            presence,
            by_document=request.by_document,
            with_stop_words=rankings.only_stop_words,
        )
        if request.by_date:
            hits = sort_newest_first(hits)
            rankings.add_note(describe_dates(hits))
        return hits

    def _hide_weak(self, rankings: Rankings, top: int) -> None:
        """Remove weak hits from the semantic ranking, and note how many of the first `top`."""
        min_similarity, reason = self._loaded.threshold()
        rankings.by_ranker["semantic"], note = hide_weak(
            rankings.by_ranker["semantic"], top, min_similarity, reason
        )
        rankings.add_note(note)
        if min_similarity is None:
            rankings.commands.append("evaluate")

    def _add_notes(
        self,
        rankings: Rankings,
        mode: Mode,
        query: ParsedQuery,
        search_filter: SearchFilter,
    ) -> None:
        """Add notes on named files, incomplete indexes, unmet filters and unclosed quotes."""
        if query.names:
            rankings.notes.insert(0, f"Only in {' and '.join(query.names)}, which the query names.")
        for ranker in rankings.by_ranker:
            lag = self._typed.lag.find_lag(ranker, encoder_mode(mode))
            if lag:
                rankings.add_note(lag.text)
                if lag.command:
                    rankings.commands.append(lag.command)
        rankings.notes += self._typed.find_unmet(search_filter)
        if query.unclosed:
            phrase = f"{query.unclosed} is searched as a phrase, its last word as a prefix"
            rankings.add_note(f"The quotation mark is not closed: {phrase}.")

    def _find_problem(self, query: ParsedQuery) -> UsageError | None:
        """Return why a query cannot be searched for, or None if it can."""
        reason = unsearchable(query.typed)
        if reason:
            return UsageError(reason, code="query-empty")
        if query.like_document:
            return None
        if query.like:
            what = f"There is no document {query.like}: name its id or its path."
            return UsageError(what, code="document-missing")
        if unsearchable(query.text):
            what = (
                "The query only says what to leave out. Type a word to look for as well, as in:"
                " report -draft"
            )
            return UsageError(what, code="query-empty")
        return None

    @_on_current_database
    def search_unused(self, query: str, top: int) -> tuple[Hit, ...]:
        """Return the first `top` hits by each encoder that is not in use, base or adapted.

        Their hits are judged as well, so that a comparison is fair to these encoders. An encoder
        without cached vectors of all chunks gives no hits. Raises what `search` raises.
        """
        if unsearchable(query):
            return ()
        settings = self._loaded.settings().search
        parsed = self._typed.restrict(self._typed.read(query))
        allowed = self._typed.chunks_of(parsed.documents)
        presence = Presence(self.project.path)
        hits: dict[int, Hit] = {}
        for ranking in self._explainer.unused_rankings(parsed.text, 2 * top, allowed):
            rankings = {"semantic": ranking}
            fused = fuse(rankings, settings)
            for hit in self._listing.hits(parsed.text, rankings, fused, top, presence):
                hits[hit.chunk_id] = hit
        return tuple(hits.values())

    @_on_current_database
    def document(self, document_id: int) -> Document | None:
        """Return a document with its text, for a preview."""
        return self._loaded.store.document(document_id)

    @_on_current_database
    def document_of(self, stable_id: str) -> Document | None:
        """Return a document with its text, by the id that no run changes.

        None if there is no such document, or if its file is gone.
        """
        presence = Presence(self.project.path)
        for document in self._loaded.documents().values():
            if document.stable_id == stable_id:
                return self._loaded.store.document(document.id) if presence.has(document) else None
        return None

    @_on_current_database
    def facets(self) -> dict[str, dict[str, int]]:
        """Count all documents by type, author, tag, language, year and folder (see `Found`)."""
        return facets(self._loaded.documents().values())

    @_on_current_database
    def explain(
        self,
        query: str,
        chunk_ids: Sequence[int],
        mode: Mode | None = None,
    ) -> Explained:
        """Compare the ranks of chunks by the encoder in use in `mode` and by the base encoder.

        A chunk that is not in the vector index, or whose document was deleted, has no rank. Raises
        as `search`.
        """
        used_by = encoder_mode(mode or self._loaded.settings().search.mode_in_json)
        parsed = self._typed.read(query, syntax=True)
        reason = unsearchable(parsed.typed)
        if reason:
            name = encoder_name(self._loaded.vectors(used_by).info)
            return Explained(
                name,
                {chunk_id: RankComparison() for chunk_id in chunk_ids},
                reason,
            )
        parsed = self._typed.restrict(parsed)
        allowed = None
        if parsed.wildcards:
            allowed = self._typed.find_allowed(parsed)
        parsed = self._typed.add_wording(parsed, allowed)
        return self._explainer.explain(
            parsed.meaning,
            chunk_ids,
            used_by,
        )

    @_on_current_database
    def may_rerank(self, mode: Mode) -> bool:
        """Return whether a search in a mode may use the reranker without being asked to."""
        return self.reranking.may_rerank(mode)

    def warm_up(self, mode: Mode) -> None:
        """Load what a mode needs, so that the first search is fast."""
        self.search(Search("warm up", mode, top=1, rerank=False))

    def _count_facets(self, rankings: Rankings) -> dict[str, dict[str, int]]:
        """Count the documents that contain a word of the query or a first semantic hit."""
        import numpy as np

        counted_ids: list[Ids] = []
        if rankings.matching is not None:
            counted_ids.append(rankings.matching)
        if "semantic" in rankings.by_ranker:
            ids, _ = rankings.by_ranker["semantic"]
            counted_ids.append(ids[:MIN_DEPTH])
        chunks, owners = self._loaded.chunk_owners()
        is_counted = np.isin(chunks, np.concatenate(counted_ids))
        owner_ids = set(owners[is_counted].tolist())
        documents = self._loaded.documents().values()
        return facets(document for document in documents if document.id in owner_ids)


def unsearchable(query: str) -> str:
    """Return why a query has nothing to search for, or an empty text.

    It needs a letter or digit of any script: an encoder ranks all chunks even for "!!!".
    """
    if any(category(char)[0] in "LN" for char in query):
        return ""
    return NO_WORD if query.strip() else EMPTY
