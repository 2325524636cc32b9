"""Scoring of passages by a reranker within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from engine.core.errors import EngineError
from engine.core.messages.search import RerankerSpeed
from engine.reranking.reranker import too_slow

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.reranking.reranker import Reranker

MAX_PASSAGES = 100
"""Maximum number of passages per search; BM25 and the encoder return at least as many."""
WARM_UP = "A passage of some length, by which the pace is known before the first search. " * 8
"""Passage that is scored to measure the pace before the first search."""
MARGIN = 1.1
"""Factor for the expected time of a batch, as it may be slower than the last one."""
MEASURE_SECONDS = 1.0
"""How long a reranker is timed, in batches of `MEASURED_AT_ONCE` passages."""
MEASURED_AT_ONCE = 8
MAX_CHARACTERS = 2500
"""Characters of query and passage together, beyond which models cut them."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of the first k passages."""

    scores: Floats
    """Scores (k,)."""
    seconds: float
    """Time that the scoring took."""
    problem: EngineError | None = None
    """The error that ended the scoring early, if any."""


class BudgetedReranker:
    """A reranker that keeps within a time limit of `seconds` for each search.

    The pace of the last batch decides the size of the next one. A batch takes at most a tenth of
    the time (on a server half), so that little is lost if the machine slows down and the last batch
    is abandoned. For one thread at a time.
    """

    def __init__(
        self, reranker: Reranker, seconds: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.reranker = reranker
        self.seconds = seconds
        self._clock = clock
        self._loading: Future[None] | None = None
        # Seconds per pair, and characters of the longest pair in the last batch; 0: not known yet.
        self._pace = 0.0
        self._longest = 0

    def load(self) -> None:
        """Load the model and measure its pace, so that the first search need not.

        The pace of a server is not measured. Raises what `Reranker.scores` raises.
        """
        self.reranker.load()
        if self.reranker.first_batch == 1:
            self._score_batch(
                inf,
                "warm up",
                [WARM_UP],
            )

    def start_loading(self) -> Future[None]:
        """Return the call of `load` in a thread, started now if there is none or if it failed."""
        loading = self._loading
        if loading is None or (loading.done() and loading.exception() is not None):
            thread = ThreadPoolExecutor(1)
            loading = thread.submit(self.load)
            thread.shutdown(wait=False)
            self._loading = loading
        return loading

    def scores(
        self, query: str, passages: Sequence[str], stop: Callable[[], bool] = lambda: False
    ) -> Scored:
        """Score as many of the first passages as the time allows.

        `stop` is called between batches; once it returns true, scoring ends. An error is returned
        as the result's `problem`.
        """
        start = self._clock()
        batches = [np.empty(0, np.float32)]
        done = 0
        problem = None
        while done < len(passages) and not stop():
            remaining = self.seconds - (self._clock() - start)
            size = self._batch_size(
                query,
                passages[done:],
                remaining,
            )
            if not size:
                break
            batch = passages[done : done + size]
            try:
                batches.append(self._score_batch(remaining, query, batch))
            except EngineError as error:
                problem = error
                break
            done += size
        if not done and problem is None and passages and not stop():
            # Assume a faster pace next time: the machine may only have been busy for a moment.
            self._pace /= 2
            problem = too_slow(self.reranker.name)
        return Scored(
            np.concatenate(batches),
            self._clock() - start,
            problem,
        )

    def _score_batch(
        self,
        remaining: float,
        query: str,
        batch: Sequence[str],
    ) -> Floats:
        """Return the scores (b,) of a batch within the `remaining` seconds, and record its pace."""
        start = self._clock()
        try:
            return self.reranker.scores(query, batch, remaining)
        finally:
            pace = (self._clock() - start) / len(batch)
            # A slower pace counts at once, a faster one gradually.
            self._pace = max(pace, (pace + self._pace) / 2)
            self._longest = max(_length(query, passage) for passage in batch)

    def _batch_size(
        self,
        query: str,
        passages: Sequence[str],
        remaining: float,
    ) -> int:
        """Return how many of the next `passages` to score at once.

        `remaining`: seconds until the time limit. 0 if there is no time for a single passage.
        """
        if remaining <= 0:
            return 0
        if not self._longest:
            return min(len(passages), self.reranker.first_batch)
        size = 0
        longest = self._longest
        # A single passage may take all of the time, several a batch's share of it.
        limit = remaining
        for passage in passages:
            longest = max(longest, _length(query, passage))
            seconds = MARGIN * self._pace * longest / self._longest
            if seconds * (size + 1) > limit:
                break
            size += 1
            limit = min(remaining, self.reranker.batch_share * self.seconds)
        return size


def measure_speed(
    reranker: Reranker,
    passages: Sequence[str],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> RerankerSpeed:
    """Time a loaded reranker on up to 100 passages of a project, for about a second.

    `seconds`: the time limit of a search. Raises what `Reranker.scores` raises.
    """
    sample = passages[:MAX_PASSAGES] or [WARM_UP] * MAX_PASSAGES
    done = 0
    start = clock()
    while done < len(sample) and (not done or clock() - start < MEASURE_SECONDS):
        batch = sample[done : done + MEASURED_AT_ONCE]
        reranker.scores("How long does this take?", batch)
        done += len(batch)
    rate = done / (clock() - start)
    fitting = min(MAX_PASSAGES, int(rate * seconds))
    return RerankerSpeed(
        reranker.name,
        rate,
        fitting,
        fitting / rate,
    )


def _length(query: str, passage: str) -> int:
    """Return the number of characters that a model reads of a pair, plus 1 so that it is not 0."""
    return min(len(query) + len(passage), MAX_CHARACTERS) + 1
