"""The time that a language model needs to write queries, estimated from the first chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.core.text import format_count

MEASURED = 3  # Chunks answered in a run before it estimates the time for all of them.
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum number of queries, and of seconds spent asking (0: no limit)."""

    queries: int
    seconds: float

    def is_spent(self, queries: int, seconds: float) -> bool:
        """Return whether no further chunk should be asked about."""
        return queries >= self.queries or 0 < self.seconds <= seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """The seconds that `chunks` took and the queries that they yielded."""

    chunks: int
    seconds: float
    queries: int

    @property
    def seconds_per_chunk(self) -> float:
        """Seconds per chunk."""
        return self.seconds / max(1, self.chunks)

    def plus(self, other: Pace) -> Pace:
        """Return the sum of both."""
        return Pace(
            self.chunks + other.chunks, self.seconds + other.seconds, self.queries + other.queries
        )

    def chunks_within(self, budget: Budget, total: int) -> int:
        """Estimate how many of `total` chunks the budget reaches at this pace."""
        limits = [total]
        if self.queries:
            limits.append(math.ceil(budget.queries * self.chunks / self.queries))
        if budget.seconds and self.seconds:
            limits.append(math.ceil(budget.seconds / self.seconds_per_chunk))
        return min(limits)

    def summary(self) -> str:
        """Describe the pace in words."""
        queries = self.queries / max(1, self.chunks)
        if self.seconds_per_chunk >= 0.01:
            seconds = f"{self.seconds_per_chunk:.2f} s"
        else:
            seconds = "less than 0.01 s"
        chunks = format_count(self.chunks, "chunk")
        return f"{seconds} and {queries:.1f} queries per chunk, measured on {chunks}"


@dataclass
class RunProgress:
    """The progress of a run, whatever the order in which answers arrive."""

    budget: Budget
    done: Pace = Pace(0, 0.0, 0)
    """All answers, including those of earlier runs, whose time counts as spent."""
    current: Pace = Pace(0, 0.0, 0)
    """The answers of this run without the first, which may include the time to load the model."""
    answered: int = 0
    """The number of answers of this run."""

    def add(self, answer: Pace, own: bool) -> None:
        """Count an answer; `own`: it was written in this run."""
        self.done = self.done.plus(answer)
        if own:
            self.answered += 1
            if self.answered > 1:
                self.current = self.current.plus(answer)

    @property
    def pace(self) -> Pace:
        """The pace by which the remaining time is estimated."""
        return self.current if self.current.chunks else self.done

    def reachable_chunks(self, total: int) -> int:
        """Estimate how many of `total` chunks the budget reaches, including those already done."""
        chunk_count = self.done.chunks_within(Budget(self.budget.queries, 0), total)
        if self.budget.seconds and self.current.seconds:
            seconds_left = max(0.0, self.budget.seconds - self.done.seconds)
            chunks_left = math.ceil(seconds_left / self.current.seconds_per_chunk)
            chunk_count = min(chunk_count, self.done.chunks + chunks_left)
        return max(chunk_count, self.done.chunks)
