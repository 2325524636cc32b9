"""The rankings that a search mode asks for: by BM25, by meaning, or both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, NotBuiltError
from engine.core.messages.report import SearchMode
from engine.core.messages.search import Mode
from engine.project.control import with_run_hint
from engine.search.fusing import Fused, Ranking
from engine.search.loaded import LoadedProject
from engine.search.stop_words import find_stop_words
from engine.search.syntax import ParsedQuery
from engine.settings.schema import SearchSettings

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex

INDEX_NAMES = {"bm25": "keyword index", "semantic": "vector index"}


@dataclass
class Rankings:
    """The rankings of one query by `bm25` and `semantic`, and notes for the user."""

    by_ranker: dict[str, Ranking] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """Commands that mend what the notes report, such as `embed`."""
    matching: Ids | None = None
    """Ids of all chunks with a word of the query, if `all_matching` was set."""
    index: LexicalIndex | None = None
    """The BM25 index that was used."""
    only_stop_words: bool = False
    """Whether all words of the query are stop words."""

    def add_note(self, text: str) -> None:
        """Add a note for the user, unless it is empty."""
        if text:
            self.notes.append(text)

    @property
    def longest(self) -> int:
        """Length of the longest ranking."""
        lengths = [len(ids) for ids, _ in self.by_ranker.values()]
        return max(lengths, default=0)

    @property
    def without_words(self) -> bool:
        """Whether both rankers were used, and no chunk contains a word of the query."""
        if len(self.by_ranker) < 2 or self.only_stop_words:
            return False
        return len(self.by_ranker["bm25"][0]) == 0


@dataclass(frozen=True)
class Rankers:
    """Ranks chunks by the indexes of a project."""

    loaded: LoadedProject

    def rank(
        self,
        query: ParsedQuery,
        mode: Mode,
        depth: int,
        allowed: Ids | None,
        *,
        all_matching: bool = False,
    ) -> Rankings:
        """Return the best `depth` chunks by each ranker of a mode.

        Only chunks in `allowed` are ranked (None: all). `all_matching`: also return all chunks with
        a word of the query. If one ranker of hybrid search is not built, damaged or fails, the
        other answers alone, with a note.
        """
        rankings = Rankings()

        def rank_by_keywords() -> Ranking:
            return self._rank_by_keywords(
                query.keywords,
                depth,
                allowed,
                rankings,
                all_matching,
            )

        def rank_by_meaning() -> Ranking:
            return self._rank_by_meaning(
                query.meaning,
                encoder_mode(mode),
                depth,
                allowed,
            )

        rankers: dict[str, Callable[[], Ranking]] = {
            "bm25": rank_by_keywords,
            "semantic": rank_by_meaning,
        }
        if mode != "hybrid":
            rankings.by_ranker[mode] = rankers[mode]()
            return rankings
        failures: dict[str, EngineError] = {}
        for ranker, rank in rankers.items():
            try:
                rankings.by_ranker[ranker] = rank()
            except EngineError as error:
                failures[ranker] = with_run_hint(self.loaded.project, error)
        if not rankings.by_ranker:
            raise next(iter(failures.values()))
        remaining = "keywords" if "bm25" in rankings.by_ranker else "meaning"
        for ranker, failure in failures.items():
            if isinstance(failure, NotBuiltError) and failure.command == "status":
                index = INDEX_NAMES[ranker]
                rankings.add_note(f"By {remaining} only so far: a run is building the {index}.")
                continue
            rankings.add_note(f"By {remaining} only: {failure.what} {failure.to_do}")
            rankings.commands += failure.commands
        return rankings

    def _rank_by_keywords(
        self,
        query: str,
        depth: int,
        allowed: Ids | None,
        rankings: Rankings,
        all_matching: bool,
    ) -> Ranking:
        """Rank by BM25, among the allowed chunks only (None: all).

        Adds notes and the index to `rankings`, with `all_matching` also all matching chunks.
        """
        index = self.loaded.lexical_index()
        count = index.count if all_matching else depth
        ranking: Ranking = index.search(query, count, allowed)
        stop_words = find_stop_words(
            self.loaded,
            index,
            query,
            ranking,
            allowed,
        )
        if stop_words:
            ranking = stop_words.ranking
            rankings.add_note(stop_words.note)
            rankings.only_stop_words = True
        rankings.index = index
        ids, scores = ranking
        if all_matching:
            rankings.matching = ids
        return ids[:depth], scores[:depth]

    def _rank_by_meaning(
        self, query: str, mode: SearchMode, depth: int, allowed: Ids | None
    ) -> Ranking:
        """Rank by similarity with the query, among the allowed chunks only (None: all)."""
        _, index, vector = self.loaded.query_vector(query, mode)
        if allowed is None:
            return index.search(vector, depth)
        return index.search_among(vector, allowed, depth)

    def cross_score(
        self, query: ParsedQuery, rankings: Rankings, settings: SearchSettings
    ) -> dict[str, Ranking]:
        """Return each ranking with the other's chunks added, so that each chunk has both scores.

        Fusion by rank leaves the rankings as they are. A chunk that is not embedded yet gets an
        estimated similarity: as high between the lowest and the highest similarity as its BM25
        score is between the lowest and the highest score.
        """
        both = rankings.by_ranker
        if rankings.index is None or len(both) < 2 or settings.fusion == "rrf":
            return both
        import numpy as np

        from engine.ranking.fusion import cross_score

        bm25_ids, bm25_scores = both["bm25"]
        semantic_ids, _ = both["semantic"]
        try:
            _, index, vector = self.loaded.query_vector(query.meaning, "hybrid")
            embedded_ids, similarities = index.search_among(
                vector,
                bm25_ids,
                len(bm25_ids),
            )
            scores = rankings.index.scores(query.keywords, semantic_ids)
        except EngineError:  # a run has just replaced an index: the rankings stay as they are
            return both
        by_keywords: Ranking = cross_score(
            both["bm25"],
            semantic_ids,
            scores,
        )
        by_meaning: Ranking = cross_score(
            both["semantic"],
            embedded_ids,
            similarities,
        )
        lacks_vector = ~np.isin(bm25_ids, embedded_ids)
        if lacks_vector.any() and len(by_meaning[0]):
            # Map the range of BM25 scores to that of similarities.
            known_scores = bm25_scores[lacks_vector]
            estimated = np.interp(
                known_scores,
                _find_bounds(by_keywords),
                _find_bounds(by_meaning),
            )
            by_meaning = cross_score(
                by_meaning,
                bm25_ids[lacks_vector],
                estimated,
            )
        return {"bm25": by_keywords, "semantic": by_meaning}


def encoder_mode(mode: Mode) -> SearchMode:
    """Return the mode whose encoder a search in `mode` uses."""
    return "semantic" if mode == "semantic" else "hybrid"


def _find_bounds(ranking: Ranking) -> tuple[float, float]:
    """Return the lowest and the highest score."""
    _, scores = ranking
    return float(scores.min()), float(scores.max())


def put_codes_first(
    fused: Fused,
    text: str,
    rankings: Rankings,
    allowed: Ids | None,
) -> Fused:
    """Put chunks first that contain a whole code of the query `text`, such as PHX-121.

    Chunks with more of the query's codes come before those with fewer. A code in more than a tenth
    of all chunks, such as COVID-19 in a collection about it, counts only for the best chunk. Does
    nothing unless both rankers were used.
    """
    import numpy as np

    index = rankings.index
    if index is None or len(rankings.by_ranker) < 2:
        return fused
    order = list(fused.order)
    code_counts: Counter[int] = Counter()
    for matching in index.find_with_codes(text):
        matching_ids = set(matching.tolist())
        ranked = [chunk_id for chunk_id, _ in order if chunk_id in matching_ids]
        if not ranked:  # because of its other words, no ranker has found a chunk with this code
            candidates = matching
            if allowed is not None:
                candidates = np.intersect1d(matching, allowed)
            ranked = index.search(text, 1, candidates)[0].tolist()
            order += [(chunk_id, 0.0) for chunk_id in ranked]
        is_frequent = len(matching_ids) > index.count / 10
        code_counts.update(ranked[:1] if is_frequent else ranked)
    if not code_counts:
        return fused
    order.sort(key=lambda item: -code_counts[item[0]])
    return replace(fused, order=order)


def hide_weak(
    ranking: Ranking, top: int, min_similarity: float | None, reason: str
) -> tuple[Ranking, str]:
    """Return a ranking without the chunks below `min_similarity`, and a note or an empty text.

    The note counts the chunks hidden among the first `top`. If `min_similarity` is None, nothing is
    hidden, and the note gives the `reason`.
    """
    if min_similarity is None:
        return ranking, f"No weak hits are hidden: {reason}."
    ids, similarities = ranking
    is_kept = similarities >= min_similarity
    similar_enough = (ids[is_kept], similarities[is_kept])
    hidden = int((~is_kept[:top]).sum())
    if hidden == 0:
        return similar_enough, ""
    hits = "1 hit is" if hidden == 1 else f"{hidden} hits are"
    note = f"{hits} hidden, less similar to the query than {min_similarity:.2f} (search.hide_weak)."
    return similar_enough, note
