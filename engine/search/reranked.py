"""Reordering of a search's first passages by the reranker, within its time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import Hit, Reranked, RerankerSpeed
from engine.project.store.artifact_info import EvaluationInfo, RerankerInfo
from engine.search.cached_value import CachedValue
from engine.search.fusing import Fused
from engine.search.loaded import LoadedProject

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.reranking.budget import BudgetedReranker

Stop = Callable[[], bool]
POLL_SECONDS = 0.02
"""Interval at which a search that waits for the model checks whether to stop."""
PASSAGES_AT_ONCE = 32
"""Number of passages between two calls of `progress`."""


@dataclass(frozen=True, slots=True)
class RerankedOrder:
    """A fused ranking, reordered if the reranker was used."""

    fused: Fused
    scores: dict[int, float] = field(default_factory=dict)
    """Chunk id → the reranker's score."""
    reranked: Reranked | None = None
    """As in `Found`."""
    can_rerank: bool = False
    """As in `Found`."""


class Reranking:
    """The reranker of one searcher, whose model is loaded in a thread when first needed."""

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self._reranker = CachedValue["BudgetedReranker"]()

    def should_rerank(self, mode: str, asked: bool | None) -> bool:
        """Return whether to rerank.

        `asked`: what the caller wants; None for what the setting `search.rerank` says. Its value
        `auto` means to rerank if the last evaluation chose exactly this reranker for the mode.
        Raises UsageError if `asked` is true although project.toml names no reranker.
        """
        settings = self._loaded.settings().search
        if asked:
            self._require_reranker()
        if asked is not None:
            return asked
        if settings.rerank == "on":
            return bool(settings.reranker)
        decision = self.find_decision(mode)
        if decision is None:
            return False
        try:
            return self._open_reranker().reranker.fingerprint == decision.fingerprint
        except EngineError:
            return True  # the search reports what is wrong with it

    def _require_reranker(self) -> None:
        """Raise UsageError if project.toml names no reranker."""
        if not self._loaded.settings().search.reranker:
            raise UsageError(
                "There is no reranker.",
                "search.reranker in project.toml is empty.",
                "Name the folder of a cross-encoder, or a server, in search.reranker.",
                code="reranker-not-chosen",
            )

    def may_rerank(self, mode: str) -> bool:
        """Return whether a search in a mode may use the reranker without being asked to."""
        settings = self._loaded.settings().search
        if settings.rerank == "on":
            return bool(settings.reranker)
        return self.find_decision(mode) is not None

    def find_decision(self, mode: str) -> RerankerInfo | None:
        """Return the decision of the last evaluation to use a reranker in a mode, or None.

        A decision holds only for the time limit that was evaluated. It may be about another
        reranker than the one that project.toml names now; comparing the model files would take
        seconds.
        """
        settings = self._loaded.settings().search
        evaluation = self._loaded.artifact(EvaluationInfo)
        if evaluation is None or not settings.reranker or settings.rerank == "off":
            return None
        decision = evaluation.info.reranker
        if decision is None or not decision.used:
            return None
        if decision.mode != mode or decision.seconds != settings.rerank_seconds:
            return None
        return decision

    def order(
        self, mode: str, asked: bool | None, query: str, fused: Fused, stop: Stop
    ) -> RerankedOrder:
        """Return the passages in the order of the reranker's scores, if `should_rerank` says so.

        Passages without a score follow in their order in `fused`. Loading the model does not count
        towards the time limit. `stop` is called repeatedly; once it returns true, no more passages
        are scored. Raises what `should_rerank` raises; what goes wrong later is in the result.
        """
        if not self.should_rerank(mode, asked):
            return RerankedOrder(fused, can_rerank=asked is False and self.may_rerank(mode))
        from engine.reranking.budget import MAX_PASSAGES

        first = [chunk_id for chunk_id, _ in fused.order[:MAX_PASSAGES]]
        chunks = self._loaded.store.chunks_by_id(first)
        present = [chunk_id for chunk_id in first if chunk_id in chunks]
        try:
            reranker = self._open_reranker()
            if not self._wait_until_loaded(reranker, stop):
                return RerankedOrder(fused, reranked=Reranked())
        except EngineError as error:
            return RerankedOrder(fused, reranked=Reranked(problem=error))
        passages = [chunks[chunk_id].embedded_text for chunk_id in present]
        result = reranker.scores(query, passages, stop)
        values = map(float, result.scores)
        # Time may have ended before the last passages.
        scores = dict(zip(present, values, strict=False))
        order = sorted(fused.order, key=lambda item: -scores.get(item[0], -math.inf))
        reranked = Reranked(
            len(scores),
            result.seconds,
            result.problem,
        )
        return RerankedOrder(
            replace(fused, order=order),
            scores,
            reranked,
        )

    def scores(
        self, query: str, passages: Sequence[str], progress: Callable[[int], None]
    ) -> Floats:
        """Return how well each passage answers a query (n,), without a time limit.

        `progress` is called with the number of passages done, and may raise to end the scoring.
        Raises UsageError if project.toml names no reranker, and as `Reranker.scores`.
        """
        import numpy as np

        self._require_reranker()
        budgeted = self._open_reranker()
        self._wait_until_loaded(budgeted, lambda: False)
        batches = []
        for start in range(0, len(passages), PASSAGES_AT_ONCE):
            progress(start)
            batch = passages[start : start + PASSAGES_AT_ONCE]
            batches.append(budgeted.reranker.scores(query, batch))
        return np.concatenate(batches)

    def measure_speed(self) -> RerankerSpeed:
        """Time the reranker on passages of the project.

        Raises UsageError if project.toml names none, and as `Reranker.scores`.
        """
        from engine.reranking.budget import MAX_PASSAGES, measure_speed

        self._require_reranker()
        reranker = self._open_reranker()
        self._wait_until_loaded(reranker, lambda: False)
        passages = self._loaded.store.sample_chunk_texts(MAX_PASSAGES)
        return measure_speed(
            reranker.reranker,
            passages,
            reranker.seconds,
        )

    def _open_reranker(self) -> BudgetedReranker:
        """Return the reranker that project.toml names now. Raises ModelError, SettingsError."""
        settings = self._loaded.settings()
        chosen = settings.search
        key = (
            chosen.reranker,
            chosen.reranker_model,
            chosen.reranker_allow_public,
            chosen.rerank_seconds,
            settings.encoder,
        )

        def make() -> BudgetedReranker:
            from engine.reranking.budget import BudgetedReranker
            from engine.reranking.chosen import reranker_of

            reranker = reranker_of(self._loaded.project, settings)
            assert reranker is not None, "`should_rerank` has checked the setting"
            return BudgetedReranker(reranker, settings.search.rerank_seconds)

        return self._reranker.get(key, make)

    def _wait_until_loaded(self, reranker: BudgetedReranker, stop: Stop) -> bool:
        """Return whether the model is loaded before `stop` returns true.

        Raises what loading raises.
        """
        loading = reranker.start_loading()
        while not loading.done():
            if stop():
                return False
            time.sleep(POLL_SECONDS)
        loading.result()
        return True


def describe_problem(reranked: Reranked | None) -> str:
    """Return a note on the error that ended reranking early, or an empty text."""
    if reranked is None or reranked.problem is None:
        return ""
    return f"Reranking ended early: {reranked.problem.what} {reranked.problem.to_do}"


def add_scores(hits: tuple[Hit, ...], scores: dict[int, float]) -> tuple[Hit, ...]:
    """Return the hits with the reranker's scores."""
    if scores:
        return tuple(replace(hit, rerank_score=scores.get(hit.chunk_id)) for hit in hits)
    return hits
