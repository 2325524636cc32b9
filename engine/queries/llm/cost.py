"""What it takes to have a language model write the queries, estimated on the first chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from engine.core.errors import CancelledError

MEASURED = 3  # chunks answered in a run after which it reports what all of them will take
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many queries, and seconds of asking; 0 seconds are no limit."""

    queries: int
    seconds: float

    def spent(self, queries: int, seconds: float) -> bool:
        """Whether no further chunk is to be asked."""
        return queries >= self.queries or 0 < self.seconds <= seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """What `chunks` have taken and given."""

    chunks: int
    seconds: float
    queries: int

    @property
    def each(self) -> float:
        """Seconds a chunk."""
        return self.seconds / max(1, self.chunks)

    def plus(self, other: Pace) -> Pace:
        """Both together."""
        return Pace(
            self.chunks + other.chunks, self.seconds + other.seconds, self.queries + other.queries
        )

    def chunks_within(self, budget: Budget, total: int) -> int:
        """How many of `total` chunks the budget reaches, if they are as those before them."""
        reached = total
        if self.queries:
            reached = min(reached, math.ceil(budget.queries * self.chunks / self.queries))
        if budget.seconds and self.seconds:
            reached = min(reached, math.ceil(budget.seconds / self.each))
        return reached

    def summary(self) -> str:
        """In words."""
        queries = self.queries / max(1, self.chunks)
        if self.each >= 0.01:
            seconds = f"{self.each:.2f} s"
        else:
            seconds = "less than 0.01 s"
        return f"{seconds} and {queries:.1f} queries a chunk, timed on {self.chunks}"


@dataclass
class Course:
    """How far a run is, whatever the order in which answers come.

    What a run before has answered counts as done, and as spent; `own`, what was answered in this
    run but its first chunk, shows how fast the model is now: the first one may have waited until
    the model was loaded.
    """

    budget: Budget
    done: Pace = Pace(0, 0.0, 0)
    own: Pace = Pace(0, 0.0, 0)
    answered: int = 0

    def take(self, one: Pace, own: bool) -> None:
        """Count an answer; `own`: it came in this run."""
        self.done = self.done.plus(one)
        if own:
            self.answered += 1
            if self.answered > 1:
                self.own = self.own.plus(one)
            else:
                self.own = self.own

    @property
    def pace(self) -> Pace:
        """What the time that is left is estimated by."""
        return self.own if self.own.chunks else self.done

    def reach(self, total: int) -> int:
        """How many of `total` chunks the budget reaches, those that are done among them."""
        reached = self.done.chunks_within(Budget(self.budget.queries, 0), total)
        if self.budget.seconds and self.own.seconds:
            left = max(0.0, self.budget.seconds - self.done.seconds)
            reached = min(reached, self.done.chunks + math.ceil(left / self.own.each))
        return max(reached, self.done.chunks)


class Patience:
    """Asks whether to stop, and knows how long it waited for the answer: while a run is paused
    none is given.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self.waited = 0.0

    def __call__(self) -> bool:
        """Whether to stop."""
        before = monotonic()
        try:
            return self._should_stop()
        finally:
            self.waited += monotonic() - before

    def clock(self) -> float:
        """Seconds on a clock that stands still while a run is paused."""
        return monotonic() - self.waited

    def check(self) -> None:
        """Raises CancelledError when it is time to stop."""
        if self():
            raise CancelledError("Cancelled.")
