"""The queries that a system answers better or worse than the base of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.evaluation.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Change:
    """One query: its metric under the base and under the system, in percent."""

    key: str
    text: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Changes:
    """The largest gains and losses, largest first, and how many queries changed at all."""

    better: tuple[Change, ...]
    worse: tuple[Change, ...]
    count_better: int
    count_worse: int
    count_equal: int


def query_changes(comparison: Comparison, system: str, metric: str = "ndcg@10", top: int = 20) -> Changes:
    """What `system` changes against the comparison's base; of equally large changes the earlier query comes first.

    KeyError for a system or metric that the comparison does not have.
    """
    old, new = (comparison.values[name][metric] for name in (comparison.base, system))
    gap = new - old
    queries = zip(comparison.keys, comparison.texts, (100 * old).tolist(), (100 * new).tolist(), strict=True)
    changes = [Change(*query) for query in queries]
    rising = [changes[row] for row in np.argsort(-gap, kind="stable")[:top] if gap[row] > 0]
    falling = [changes[row] for row in np.argsort(gap, kind="stable")[:top] if gap[row] < 0]
    better, worse = int(np.count_nonzero(gap > 0)), int(np.count_nonzero(gap < 0))
    return Changes(tuple(rising), tuple(falling), better, worse, len(gap) - better - worse)
