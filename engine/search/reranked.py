"""The first passages of a search, put in order by the reranker within its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import Hit, Reranked
from engine.project.store.artifact_info import EvaluationInfo, RerankerInfo
from engine.search.fusing import Fused
from engine.search.latest import Latest
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.reranking.budget import BudgetedReranker

Stop = Callable[[], bool]
POLL_SECONDS = 0.02
PASSAGES_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Ordered:
    """`fused` in the reranker's order, where one was asked, with its `scores` by chunk; the rest
    as in `Found`.
    """

    fused: Fused
    scores: dict[int, float] = field(default_factory=dict)
    reranked: Reranked | None = None
    can_rerank: bool = False


class Reranking:
    """Of one searcher. The model is loaded in a thread, when it is first wanted."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._held = Latest["BudgetedReranker"]()
        self._loading = Latest[Future[None]]()

    def wanted(self, mode: str, asked: bool | None) -> bool:
        """Whether to rerank: as `asked`, or None: where evaluation has put this very reranker
        into use for the mode.

        Raises UsageError where it is asked for and there is none.
        """
        named = self._loaded.settings().search.reranker
        if asked and not named:
            raise UsageError(
                "There is no reranker.",
                "search.reranker in project.toml is empty.",
                "Name the folder of a cross-encoder, or a server, in search.reranker.",
                code="reranker-not-chosen",
            )
        if asked is not None:
            return asked
        if (chosen := self.decided(mode)) is None:
            return False
        try:
            return self._current().reranker.fingerprint == chosen.fingerprint
        except EngineError:
            return True  # the search says what is wrong with it

    def decided(self, mode: str) -> RerankerInfo | None:
        """What evaluation says, where it has put a reranker into use for the mode and the time.

        Whether that is the one named now is not looked at: reading a model's files takes seconds.
        """
        settings = self._loaded.settings().search
        evaluation = self._loaded.artifact(EvaluationInfo)
        chosen = evaluation.info.reranker if evaluation else None
        if chosen is None or not settings.reranker:
            return None
        fits = chosen.used and (chosen.mode, chosen.seconds) == (mode, settings.rerank_seconds)
        return chosen if fits else None

    def order(self, mode: str, asked: bool | None, query: str, fused: Fused, stop: Stop) -> Ordered:
        """What was found for `query`, reranked where that is `wanted`.

        Raises UsageError as that does.
        """
        if not self.wanted(mode, asked):
            return Ordered(fused, can_rerank=asked is False and self.decided(mode) is not None)
        return Ordered(*self._order(query, fused, stop))

    def _order(
        self, query: str, fused: Fused, stop: Stop
    ) -> tuple[Fused, dict[int, float], Reranked]:
        """The first passages as the reranker orders them, then all others as they were; its
        scores by chunk; how many there are.

        Loading is not counted in the time. `stop` is asked again and again; the answer has what was
        done by then.
        """
        from engine.reranking.budget import MAX_PASSAGES

        first = fused.order[:MAX_PASSAGES]
        texts = self._loaded.store.chunks_by_id(chunk for chunk, _ in first)
        there = [chunk for chunk, _ in first if chunk in texts]
        try:
            ready = self._current()
            if not self._wait(ready, stop):
                return fused, {}, Reranked()
        except EngineError as error:
            return fused, {}, Reranked(problem=error)
        found = ready.scores(query, [texts[chunk].embedded_text for chunk in there], stop)
        scores = dict(zip(there, map(float, found.scores), strict=False))
        order = sorted(
            fused.order, key=lambda one: (one[0] not in scores, -scores.get(one[0], 0.0))
        )
        return (
            replace(fused, order=order),
            scores,
            Reranked(len(scores), found.seconds, found.problem),
        )

    def scores(
        self, query: str, passages: Sequence[str], progress: Callable[[int], None]
    ) -> NDArray[np.float32]:
        """(n,) The higher, the better passages answer a query, however long that takes.

        `progress` gets their number at times, and may raise to end it. Raises UsageError where no
        reranker is named, and as `Reranker.scores`.
        """
        import numpy as np

        self.wanted("", True)
        ready = self._current()
        self._wait(ready, lambda: False)
        parts = []
        for start in range(0, len(passages), PASSAGES_AT_ONCE):
            progress(start)
            parts.append(ready.reranker.scores(query, passages[start : start + PASSAGES_AT_ONCE]))
        return np.concatenate(parts)

    def _current(self) -> BudgetedReranker:
        """As project.toml names it now. Raises ModelError, SettingsError."""
        settings = self._loaded.settings()

        def make() -> BudgetedReranker:
            from engine.reranking.budget import BudgetedReranker
            from engine.reranking.chosen import reranker_of

            found = reranker_of(self._loaded.project, settings)
            assert found is not None, "`wanted` has looked"
            return BudgetedReranker(found, settings.search.rerank_seconds)

        return self._held.get((settings.search, settings.encoder), make)

    def _wait(self, ready: BudgetedReranker, stop: Stop) -> bool:
        """Whether it is loaded before `stop` says so. Raises as loading."""
        thread = ThreadPoolExecutor(1)
        loading = self._loading.get(id(ready), lambda: thread.submit(ready.load))
        thread.shutdown(wait=False)
        while not loading.done():
            if stop():
                return False
            time.sleep(POLL_SECONDS)
        if loading.exception():
            self._loading = Latest()  # the next search tries again
        loading.result()
        return True


def unfinished(reranked: Reranked | None) -> str:
    """Why not all that the time allows for was reranked; empty where it was."""
    problem = reranked and reranked.problem
    if problem:
        return f"Reranking ended early: {problem.what} {problem.to_do}"
    return ""


def with_scores(hits: tuple[Hit, ...], scores: dict[int, float]) -> tuple[Hit, ...]:
    """The hits with the reranker's scores."""
    if scores:
        return tuple(replace(hit, rerank_score=scores.get(hit.chunk_id)) for hit in hits)
    return hits
