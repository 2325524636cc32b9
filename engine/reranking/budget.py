"""As many passages as a reranker can score within a time, by what its last batch took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from engine.core.errors import EngineError
from engine.reranking.reranker import too_slow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.reranking.reranker import Reranker

MAX_PASSAGES = 100
"""Of a search: BM25 and the encoder give as many at least."""
WARM_UP = "A passage of some length, by which the pace is known before the first search. " * 8
MARGIN = 1.1  # a batch is expected to take so much longer than by the pace of the last one
MAX_CHARACTERS = 2500  # of a pair: what lies beyond is cut by the models


@dataclass(frozen=True, slots=True)
class Scored:
    """`scores` (k,) of the first k passages, in `seconds`.

    `problem`: why there are no more, other than that the time was over.
    """

    scores: NDArray[np.float32]
    seconds: float
    problem: EngineError | None = None


class BudgetedReranker:
    """A batch takes a tenth of the time at most (on a server half), so that little is lost where
    a machine slows down and its last batch is not waited for. For one thread at a time.
    """

    def __init__(
        self, reranker: Reranker, seconds: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.reranker = reranker
        self.seconds = seconds
        self._clock = clock
        self._pace = 0.0  # of the last batch: seconds a pair, and characters of its longest pair
        self._longest = 0

    def load(self) -> None:
        """Load the model, and learn its pace, so that neither counts in the first search's time.

        Raises as `Reranker.scores`.
        """
        self.reranker.load()
        if self.reranker.first_batch == 1:
            self._timed(inf, "warm up", [WARM_UP])

    def scores(
        self, query: str, passages: Sequence[str], stop: Callable[[], bool] = lambda: False
    ) -> Scored:
        """Of the first passages, as many as fit.

        `stop` is asked between batches. Errors are in the answer.
        """
        began = self._clock()
        found = [np.empty(0, np.float32)]
        done = 0
        problem = None
        while done < len(passages) and not stop():
            left = self.seconds - (self._clock() - began)
            if not (size := self._fitting(query, passages[done:], left)):
                break
            try:
                found.append(self._timed(left, query, passages[done : done + size]))
            except EngineError as error:
                problem = error
                break
            done += size
        if not done and problem is None and passages and not stop():
            self._pace /= 2  # or a moment in which the machine was busy would be the end of it
            problem = too_slow(self.reranker.name)
        return Scored(np.concatenate(found), self._clock() - began, problem)

    def _timed(self, left: float, query: str, batch: Sequence[str]) -> NDArray[np.float32]:
        began = self._clock()
        try:
            return self.reranker.scores(query, batch, left)
        finally:
            pace = (self._clock() - began) / len(batch)
            self._pace = max(pace, (pace + self._pace) / 2)  # slower at once, faster by and by
            self._longest = max(_length(query, one) for one in batch)

    def _fitting(self, query: str, passages: Sequence[str], left: float) -> int:
        """How many of the next passages make a batch; 0 where the time does not suffice for one."""
        if left <= 0 or not self._longest:
            if left > 0:
                return min(len(passages), self.reranker.first_batch)
            return 0
        size = 0
        longest = self._longest
        most = min(left, self.reranker.batch_share * self.seconds)
        for passage in passages:
            longest = max(longest, _length(query, passage))
            taken = MARGIN * self._pace * longest / self._longest * (size + 1)
            if taken > (most if size else left):
                break
            size += 1
        return size


def _length(query: str, passage: str) -> int:
    return min(len(query) + len(passage), MAX_CHARACTERS) + 1
