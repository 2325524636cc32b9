"""Whether the reranker comes into use: search in the default mode with it, against the same
without, by the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import CancelledError, EngineError
from engine.core.messages.report import SearchMode
from engine.evaluation.comparison import DocumentOf, measure
from engine.evaluation.evidence import CERTIFYING, RUNGS, Evidence
from engine.evaluation.gate import Decision, Option, decide
from engine.evaluation.gate_words import reason
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import StageContext
from engine.reranking.budget import MAX_PASSAGES, BudgetedReranker
from engine.reranking.chosen import reranker_of

if TYPE_CHECKING:
    from engine.reranking.reranker import Reranker

Ids = NDArray[np.int64]
Texts = Mapping[int, str]
WITHOUT = "without"
WITH = "reranked"
MAX_QUERIES = 600
MAX_SECONDS = 600.0
MIN_QUERIES = 100
"""Of a rung, drawn by the seed: as many as take ten minutes, with bounds."""
TIMED_QUERIES = 3


@dataclass(frozen=True, slots=True)
class RerankerChoice:
    """`name`: of the reranker.

    `mode`: of search that was measured; `passages`: how many of each query fit into the time of a
    search, `seconds`, and were reranked.
    """

    name: str
    fingerprint: str
    mode: SearchMode
    seconds: float
    in_use: bool = False
    reason: str = ""
    passages: int = 0
    decision: Decision | None = None


class RerankerTrial:
    """`rankings`: of a set, as search in `mode` has them now (q, depth); `texts`: of its chunks."""

    def __init__(
        self,
        context: StageContext,
        mode: SearchMode,
        rankings: Callable[[QuerySet], Ids],
        texts: Callable[[QuerySet], Texts],
        document_of: DocumentOf,
    ) -> None:
        self._context = context
        self._mode = mode
        self._document_of = document_of
        self._rankings = rankings
        self._texts = texts
        self._passages = 0

    def choice(self, sets: Sequence[QuerySet]) -> RerankerChoice | None:
        """What the gate says of the reranker; None where project.toml names none.

        One that fails is not in use.
        """
        settings = self._context.settings
        reranker = reranker_of(self._context.project, settings)
        if reranker is None:
            return None
        choice = RerankerChoice(
            reranker.name, reranker.fingerprint, self._mode, settings.search.rerank_seconds
        )
        try:
            ladder = self._ladder(reranker, sets)
        except CancelledError:
            raise
        except EngineError as error:
            self._context.warn(f"The reranker is not in use: {error.what} {error.why}")
            return replace(
                choice, reason=f"The reranker is not in use, because it failed: {error.what}"
            )
        samples = settings.evaluation.bootstrap_samples
        seed = settings.training.seed
        reference = Option(WITHOUT, WITHOUT)
        decision = decide(
            self._mode, ladder, reference, [Option(WITH, WITH)], samples=samples, seed=seed
        )
        why = reason(decision, "its order without the reranker", label=lambda _: "the reranker")
        return replace(
            choice,
            in_use=decision.chosen == WITH,
            reason=why,
            passages=self._passages,
            decision=decision,
        )

    def _ladder(self, reranker: Reranker, sets: Sequence[QuerySet]) -> list[Evidence]:
        """The highest rung that can decide, and those above it."""
        ladder: list[Evidence] = []
        use_judged = self._context.settings.evaluation.use_judged
        able = [
            one
            for one in sets
            if one.rung in CERTIFYING and one.usable() and (use_judged or one.rung != "judged")
        ]
        for one in sorted(able, key=lambda one: RUNGS.index(one.rung or "extractive")):
            self._passages = self._passages or self._fitting(reranker, one)
            ladder.append(self._evidence(reranker, one))
            if ladder[-1].suffices(WITHOUT):
                break
        return ladder

    def _fitting(self, reranker: Reranker, one: QuerySet) -> int:
        """How many passages fit into the time of a search on this machine: the median of some
        queries.
        """
        timed = BudgetedReranker(reranker, self._context.settings.search.rerank_seconds)
        texts = self._texts(one)
        counts = list[int]()
        timed.load()
        for row in one.usable()[:TIMED_QUERIES]:
            first = [texts[chunk] for chunk in self._first(one, row, MAX_PASSAGES)]
            scored = timed.scores(one.texts[row], first)
            if scored.problem:
                raise scored.problem
            counts.append(MAX_PASSAGES if len(scored.scores) == len(first) else len(scored.scores))
        return int(np.median(counts))

    def _first(self, one: QuerySet, row: int, count: int) -> list[int]:
        return [chunk for chunk in self._rankings(one)[row, :count].tolist() if chunk >= 0]

    def _evidence(self, reranker: Reranker, one: QuerySet) -> Evidence:
        """nDCG@10 per query, with the reranker and without."""
        assert one.rung is not None, "`_ladder` has looked"
        settings = self._context.settings
        texts = self._texts(one)
        rows = one.usable()
        most = min(MAX_QUERIES, max(MIN_QUERIES, int(MAX_SECONDS / settings.search.rerank_seconds)))
        if len(rows) > most:
            rng = np.random.default_rng(settings.training.seed)
            rows = sorted(rng.choice(rows, most, replace=False).tolist())
        former = self._rankings(one)[rows]
        reranked = former.copy()
        for place, row in enumerate(rows):
            self._context.check_stop()
            first = self._first(one, row, self._passages)
            scores = reranker.scores(one.texts[row], [texts[chunk] for chunk in first])
            reranked[place, : len(first)] = np.array(first, np.int64)[
                np.argsort(-scores, kind="stable")
            ]
            self._context.progress(place + 1, len(rows), "queries (reranked)")
        judgments = [one.judgments[row] for row in rows]
        found = {}
        for name, ids in ((WITHOUT, former), (WITH, reranked)):
            values = measure(ids, judgments, self._document_of, ("ndcg@10",))["ndcg@10"]
            found[name] = values
        return Evidence(one.rung, found, clusters_of(judgments))
