"""The table of an evaluation's figures on one set of queries, in the form that is measured, kept in report.json, and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from engine.metrics.bootstrap import Interval
from engine.metrics.differences import Difference

Figures = Mapping[str, Mapping[str, Interval]]
Differences = Mapping[str, Mapping[str, Difference]]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """System → metric → figure, in percent, and the paired differences to `base` and of further `pairs` ("one − another").

    `left_out`: queries without an answer in the corpus; `synthetic`: of those measured, how many were made from the documents.
    """

    base: str
    queries: int
    left_out: int
    systems: Figures
    differences: Differences
    pairs: Differences = field(default_factory=dict)
    synthetic: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        systems = {
            name: {metric: Interval(**cell) for metric, cell in row.items()} for name, row in data["systems"].items()
        }
        differences, pairs = (
            {name: {metric: Difference(**cell) for metric, cell in row.items()} for name, row in data[part].items()}
            for part in ("differences", "pairs")
        )
        return cls(data["base"], data["queries"], data["left_out"], systems, differences, pairs, data["synthetic"])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    def gap(self, one: str, other: str, metric: str = "ndcg@10") -> Difference | None:
        """How much `one` lies above `other`; None where that was not compared."""
        row = self.differences.get(one) if other == self.base else self.pairs.get(f"{one} − {other}")
        return row[metric] if row else None
