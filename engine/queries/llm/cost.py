"""What it takes to have a language model write the queries, told before it has taken it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from engine.core.errors import CancelledError

MEASURED = 3  # chunks answered in a run after which it tells what all of them will take
SLOW = 2.0  # times the longest other: what a first chunk must take to be left out of the mean
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
    """What `chunks` have taken and given. `tokens` are those of the answers, 0 where there is no language model; `estimated`:
    a server has not counted them. `late`: seconds of a first chunk that is left out."""

    chunks: int
    seconds: float
    queries: int
    tokens: int = 0
    estimated: bool = False
    late: float = 0.0

    @property
    def each(self) -> float:
        """Seconds a chunk."""
        return self.seconds / max(1, self.chunks)

    def plus(self, other: Pace) -> Pace:
        """Both together."""
        return Pace(
            self.chunks + other.chunks, self.seconds + other.seconds, self.queries + other.queries,
            self.tokens + other.tokens, self.estimated or other.estimated,
        )  # fmt: skip

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
        rate = f"{self.tokens / self.seconds:.1f} tokens/s" if self.tokens and self.seconds else ""
        rate = f"about {rate} (the server does not count them)" if rate and self.estimated else rate
        first = f"; the first one took {self.late:.2f} s and is left out" if self.late else ""
        queries = self.queries / max(1, self.chunks)
        text = f"{self.each:.2f} s and {queries:.1f} queries a chunk, the mean of {self.chunks}{first}"
        return f"{rate}, {text}" if rate else text


def measured(chunks: Sequence[Pace]) -> Pace:
    """The pace of chunks, in the order of their answers. The first is left out where it took over twice as long as any other: its
    model may have been loaded meanwhile, or its pages read from the disk."""
    slow = len(chunks) >= MEASURED and chunks[0].seconds > SLOW * max(one.seconds for one in chunks[1:])
    counted = chunks[1:] if slow else chunks
    return Pace(
        sum(one.chunks for one in counted), sum(one.seconds for one in counted), sum(one.queries for one in counted),
        sum(one.tokens for one in counted), any(one.estimated for one in counted), chunks[0].seconds if slow else 0.0,
    )  # fmt: skip


@dataclass
class Course:
    """How far the asking is, whatever the order in which answers come. `own` is what was answered in this run, and alone
    tells how fast the model is now; what a run before has answered counts as done, and as spent."""

    budget: Budget
    done: Pace = Pace(0, 0.0, 0)
    own: Pace = Pace(0, 0.0, 0)
    _first: list[Pace] = field(default_factory=list)

    def take(self, one: Pace, own: bool) -> Pace | None:
        """Count an answer; the pace, where this is the last of the answers that it is measured on."""
        self.done = self.done.plus(one)
        if not own:
            return None
        self.own = self.own.plus(one)
        if len(self._first) == MEASURED:
            return None
        self._first.append(one)
        return measured(self._first) if len(self._first) == MEASURED else None

    def reach(self, total: int) -> int:
        """How many of `total` chunks the budget reaches, those that are done among them."""
        reached = self.done.chunks_within(Budget(self.budget.queries, 0), total)
        if self.budget.seconds and self.own.seconds:
            left = max(0.0, self.budget.seconds - self.done.seconds)
            reached = min(reached, self.done.chunks + math.ceil(left / self.own.each))
        return max(reached, self.done.chunks)


class Patience:
    """Asks whether to stop, and knows how long it waited for the answer: while a run is paused none is given."""

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
            raise CancelledError("The run was cancelled.", "You asked for it.")
