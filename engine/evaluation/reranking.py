"""The choice whether the reranker comes into use.

The gate compares search in the default mode with and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.core.arrays import Ids
from engine.core.errors import CancelledError, EngineError
from engine.core.messages.report import SearchMode
from engine.evaluation.comparison import DocumentOf, measure_ndcg
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import Decision, Option
from engine.evaluation.gate.sentences import explain_decision
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rungs import CERTIFYING, RUNGS, Evidence, RungName
from engine.project.stage import StageContext
from engine.reranking.budget import MAX_PASSAGES, BudgetedReranker
from engine.reranking.chosen import reranker_of

if TYPE_CHECKING:
    from engine.reranking.reranker import Reranker

Texts = Mapping[int, str]
WITHOUT = "without"
WITH = "reranked"
"""Names of the two systems: search without and with the reranker."""
MAX_QUERIES = 600
"""Maximum number of a rung's queries that are reranked."""
MAX_SECONDS = 600.0
"""Seconds that reranking the sampled queries of a rung may take."""
MIN_QUERIES = 100
"""Minimum number of a rung's queries that are reranked, even if they take longer."""
TIMED_QUERIES = 3
"""Number of queries that are timed to find out how many passages fit into the time of a search."""


@dataclass(frozen=True, slots=True)
class RerankerChoice:
    """The outcome of a trial of the reranker called `name`.

    `mode` is the search mode that was measured. `passages` is the number of each query's passages
    that were reranked, as many as fit into the `seconds` of a search.
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
    """A comparison of search in one mode with and without the reranker.

    `rankings` returns the ranking (q, depth) of a set without the reranker, `texts` the texts of
    its corpus by chunk id. At most `max_queries` of a set are reranked.
    """

    def __init__(
        self,
        context: StageContext,
        mode: SearchMode,
        rankings: Callable[[QuerySet], Ids],
        texts: Callable[[QuerySet], Texts],
        document_of: DocumentOf,
        max_queries: int = MAX_QUERIES,
    ) -> None:
        self._context = context
        self._mode = mode
        self._document_of = document_of
        self._rankings = rankings
        self._texts = texts
        self._max_queries = max_queries
        self._passages = 0

    def choose(self, sets: Sequence[QuerySet]) -> RerankerChoice | None:
        """Return what the gate decides, or None if project.toml names no reranker.

        If the reranker fails, the choice is not to use it, with the error as its reason.
        """
        settings = self._context.settings
        reranker = reranker_of(self._context.project, settings)
        if reranker is None:
            return None
        choice = RerankerChoice(
            reranker.name, reranker.fingerprint, self._mode, settings.search.rerank_seconds
        )
        try:
            ladder = self._build_ladder(reranker, sets)
        except CancelledError:
            raise
        except EngineError as error:
            self._context.warn(f"The reranker is not in use: {error.what} {error.why}")
            return replace(
                choice, reason=f"The reranker is not in use, because it failed: {error.what}"
            )
        decision = decide(
            self._mode,
            ladder,
            Option(WITHOUT, WITHOUT),
            [Option(WITH, WITH)],
            samples=settings.evaluation.bootstrap_samples,
            seed=settings.training.seed,
        )
        why = explain_decision(
            decision, "its order without the reranker", label=lambda _: "the reranker"
        )
        return replace(
            choice,
            in_use=decision.chosen == WITH,
            reason=why,
            passages=self._passages,
            decision=decision,
        )

    def _build_ladder(self, reranker: Reranker, sets: Sequence[QuerySet]) -> list[Evidence]:
        """Measure from the top of the ladder down to the highest rung that can decide."""
        rungs = CERTIFYING if self._context.settings.evaluation.use_judged else CERTIFYING[1:]
        by_rung: dict[RungName, QuerySet] = {}
        for queries in sets:
            if queries.rung in rungs and queries.usable():
                by_rung[queries.rung] = queries
        ladder: list[Evidence] = []
        for queries in [by_rung[rung] for rung in RUNGS if rung in by_rung]:
            if not self._passages:
                self._passages = self._count_affordable(reranker, queries)
            evidence = self._measure(reranker, queries)
            ladder.append(evidence)
            if evidence.suffices(WITHOUT):
                break
        return ladder

    def _count_affordable(self, reranker: Reranker, queries: QuerySet) -> int:
        """Return how many passages fit into the time of a search here, the median of some queries.

        Raises the error of a reranker that fails.
        """
        timed = BudgetedReranker(reranker, self._context.settings.search.rerank_seconds)
        texts = self._texts(queries)
        counts: list[int] = []
        timed.load()
        for row in queries.usable()[:TIMED_QUERIES]:
            passages = [texts[chunk] for chunk in self._first_chunks(queries, row, MAX_PASSAGES)]
            scored = timed.scores(queries.texts[row], passages)
            if scored.problem:
                raise scored.problem
            count = len(scored.scores)
            # If all passages of a short list fit, more would probably fit, too.
            if count == len(passages):
                count = MAX_PASSAGES
            counts.append(count)
        return int(np.median(counts))

    def _first_chunks(
        self,
        queries: QuerySet,
        row: int,
        count: int,
    ) -> list[int]:
        """Return the first chunks of a query's present ranking, without padding."""
        return [chunk for chunk in self._rankings(queries)[row, :count].tolist() if chunk >= 0]

    def _measure(self, reranker: Reranker, queries: QuerySet) -> Evidence:
        """Measure nDCG@10 per query with and without the reranker."""
        assert queries.rung is not None, "`_build_ladder` selects sets with a rung"
        texts = self._texts(queries)
        rows = self._sample_rows(queries)
        without_reranker = self._rankings(queries)[rows]  # (q, depth)
        # Chunks below the first `passages` keep their places.
        reranked = without_reranker.copy()
        for index, row in enumerate(rows):
            self._context.check_stop()
            chunks = self._first_chunks(
                queries,
                row,
                self._passages,
            )
            scores = reranker.scores(queries.texts[row], [texts[chunk] for chunk in chunks])
            order = np.argsort(-scores, kind="stable")
            reranked[index, : len(chunks)] = np.array(chunks, np.int64)[order]
            self._context.progress(
                index + 1,
                len(rows),
                "queries (reranked)",
            )
        judgments = [queries.judgments[row] for row in rows]
        values = {}
        for name, ids in ((WITHOUT, without_reranker), (WITH, reranked)):
            values[name] = measure_ndcg(
                ids,
                judgments,
                self._document_of,
            )
        return Evidence(
            queries.rung,
            values,
            clusters_of(judgments),
        )

    def _sample_rows(self, queries: QuerySet) -> list[int]:
        """Return the usable rows, or a sample of those if reranking all takes too long."""
        settings = self._context.settings
        affordable = int(MAX_SECONDS / settings.search.rerank_seconds)
        count = min(self._max_queries, max(MIN_QUERIES, affordable))
        rows = queries.usable()
        if len(rows) <= count:
            return rows
        rng = np.random.default_rng(settings.training.seed)
        sample: list[int] = rng.choice(rows, count, replace=False).tolist()
        return sorted(sample)
