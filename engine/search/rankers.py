"""The rankings that a search mode asks for: by BM25, by meaning, or both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.core.errors import EngineError
from engine.core.messages.report import SearchMode
from engine.core.messages.search import Mode
from engine.project.control import with_run_hint
from engine.search.fusing import Fused, Ranking
from engine.search.loaded import Loaded
from engine.search.stop_words import find_stop_words
from engine.search.typed import Wording
from engine.settings.schema import SearchSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.index import LexicalIndex


@dataclass
class Rankings:
    """What the rankers found: the best chunks by ranker (`bm25`, `semantic`), and notes for the
    user.

    `matching`: ids of all chunks with a word of the query, where they were wanted. `index`: the
        BM25 index that was used.
    `only_stop_words`: whether the query holds no other words.
    """

    by_ranker: dict[str, Ranking] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    matching: NDArray[np.int64] | None = None
    index: LexicalIndex | None = None
    only_stop_words: bool = False

    @property
    def longest(self) -> int:
        """Length of the longest ranking."""
        return max((len(ids) for ids, _ in self.by_ranker.values()), default=0)

    @property
    def without_words(self) -> bool:
        """Whether both rankers were asked, and no chunk holds a word of the query."""
        return (
            len(self.by_ranker) > 1
            and not len(self.by_ranker["bm25"][0])
            and not self.only_stop_words
        )


@dataclass(frozen=True)
class Rankers:
    """Asks the indexes of a project."""

    loaded: Loaded

    def rank(
        self,
        query: Wording,
        mode: Mode,
        depth: int,
        allowed: NDArray[np.int64] | None,
        *,
        all_matching: bool = False,
    ) -> Rankings:
        """The best `depth` chunks by each ranker of a mode, of those in `allowed` (None: of
        all).

        Hybrid search does with one ranker, and notes it, where the other is not built, damaged or
        fails.
        """
        rankings = Rankings()

        def lexical() -> Ranking:
            index = self.loaded.lexical_index()
            ids, scores = index.search(
                query.keywords, index.count if all_matching else depth, allowed
            )
            if stopped := find_stop_words(
                self.loaded, index, query.keywords, (ids, scores), allowed
            ):
                ids, scores = stopped.ranking
                rankings.notes.append(stopped.note)
                rankings.only_stop_words = True
            rankings.index = index
            rankings.matching = ids if all_matching else None
            return ids[:depth], scores[:depth]

        rankers: dict[str, Callable[[], Ranking]] = {
            "bm25": lexical,
            "semantic": lambda: self._semantic(query.meaning, encoder_mode(mode), depth, allowed),
        }
        if mode != "hybrid":
            rankings.by_ranker[mode] = rankers[mode]()
            return rankings
        failures: list[EngineError] = []
        for name, ranker in rankers.items():
            try:
                rankings.by_ranker[name] = ranker()
            except EngineError as error:
                failures.append(with_run_hint(self.loaded.project, error))
        if not rankings.by_ranker:
            raise failures[0]
        only = {"bm25": "By keywords only", "semantic": "By meaning only"}[
            next(iter(rankings.by_ranker))
        ]
        rankings.notes += [f"{only}: {error.what} {error.to_do}" for error in failures]
        rankings.commands += [command for error in failures for command in error.commands]
        return rankings

    def cross_scored(
        self, query: Wording, rankings: Rankings, settings: SearchSettings
    ) -> dict[str, Ranking]:
        """Where scores are summed, each ranking with the other's chunks, too: what both rankers
        think of them counts. Chunks that are not embedded yet count by meaning as they do by
        keywords: they are neither better nor worse for it.
        """
        both = rankings.by_ranker
        if rankings.index is None or len(both) < 2 or settings.fusion == "rrf":
            return both
        import numpy as np

        from engine.ranking.fusion import cross_scored

        bm25 = both["bm25"]
        semantic = both["semantic"]
        try:
            _, index, vector = self.loaded.query_vector(query.meaning, "hybrid")
            cosines = index.search_among(vector, bm25[0], len(bm25[0]))
            scores = rankings.index.scores(query.keywords, semantic[0])
        except EngineError:  # an index was replaced a moment ago: the rankings stand for themselves
            return both
        found: dict[str, Ranking] = {
            "bm25": cross_scored(bm25, semantic[0], scores),
            "semantic": cross_scored(semantic, *cosines),
        }
        lacking = ~np.isin(bm25[0], cosines[0])
        if lacking.any() and len(found["semantic"][0]):
            alike = np.interp(bm25[1][lacking], _bounds(found["bm25"]), _bounds(found["semantic"]))
            found["semantic"] = cross_scored(found["semantic"], bm25[0][lacking], alike)
        return found

    def _semantic(
        self, query: str, mode: SearchMode, depth: int, allowed: NDArray[np.int64] | None
    ) -> Ranking:
        _, index, vector = self.loaded.query_vector(query, mode)
        if allowed is None:
            return index.search(vector, depth)
        return index.search_among(vector, allowed, depth)


def encoder_mode(mode: Mode) -> SearchMode:
    """Return the mode whose encoder a search in `mode` uses."""
    return "semantic" if mode == "semantic" else "hybrid"


def _bounds(ranking: Ranking) -> tuple[float, float]:
    return float(ranking[1].min()), float(ranking[1].max())


def codes_first(
    fused: Fused, text: str, rankings: Rankings, allowed: NDArray[np.int64] | None
) -> Fused:
    """Hybrid search with the chunks first that hold a code of the query as a whole, such as
    PHX-121; the best of them alone where more than a tenth of all chunks hold it, as COVID-19 in
    what is all about it.
    """
    import numpy as np

    index = rankings.index
    order = fused.order
    held: Counter[int] = Counter()
    for holders in index.code_holders(text) if index and len(rankings.by_ranker) == 2 else ():
        known = set(holders.tolist())
        found = [chunk for chunk, _ in order if chunk in known]
        if index and not found:  # other words have kept it out of both rankings
            if allowed is None:
                among = holders
            else:
                among = np.intersect1d(holders, allowed)
            found = index.search(text, 1, among)[0].tolist()
            order = [*order, *((chunk, 0.0) for chunk in found)]
        held.update(found if index and len(known) <= index.count / 10 else found[:1])
    if held:
        return replace(fused, order=sorted(order, key=lambda one: -held[one[0]]))
    return fused


def without_weak(
    ranking: Ranking, top: int, least: float | None, reason: str
) -> tuple[Ranking, str]:
    """`ranking` without the chunks whose similarity lies below `least`, and a note on those left
    out of the first `top`.

    With `least` None nothing is left out, for a `reason`.
    """
    if least is None:
        return ranking, f"No weak hits are hidden: {reason}."
    ids, similarities = ranking
    kept = similarities >= least
    hidden = int((~kept[:top]).sum())
    if hidden == 1:
        some = "1 hit is"
    else:
        some = f"{hidden} hits are"
    if hidden:
        note = f"{some} hidden, less similar to the query than {least:.2f} (search.hide_weak)."
    else:
        note = ""
    return (ids[kept], similarities[kept]), note
