"""The tables of figures of an evaluation, read from its report.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from engine.evaluation.reporting.report import read_report


class FigureCell(TypedDict):
    """A mean with its 95 % interval, in percent."""

    value: float
    low: float
    high: float


class DifferenceCell(FigureCell):
    """A paired difference; `needed`: how many queries would show one as large."""

    verdict: str
    p_better: float
    p_value: NotRequired[float]
    needed: NotRequired[int | None]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """One set of queries: system → metric → figure, and the differences to `base` and between further pairs.

    `left_out`: queries without an answer in the corpus; `synthetic`: how many were made from the documents.
    """

    base: str
    queries: int
    left_out: int
    synthetic: int
    systems: Mapping[str, Mapping[str, FigureCell]]
    differences: Mapping[str, Mapping[str, DifferenceCell]]
    pairs: Mapping[str, Mapping[str, DifferenceCell]]
    any_two: Sequence[Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def read_tables(folder: Path) -> dict[str, FigureTable]:
    """Kind of queries (`judged`, `synthetic`) → table, of the report in `folder`. Raises DamagedError."""
    return tables_of(read_report(folder))


def tables_of(report: Mapping[str, Any]) -> dict[str, FigureTable]:
    """As `read_tables`, of a report that `read_report` gave. Those of former versions lack some of the fields."""
    return {part["kind"]: _table(part["comparison"], part.get("synthetic", 0)) for part in report["query_sets"]}


def _table(data: Mapping[str, Any], synthetic: int) -> FigureTable:
    return FigureTable(
        data["base"], data["queries"], data.get("left_out", 0), synthetic,
        data["systems"], data["differences"], data.get("pairs", {}), data.get("any_two", ()),
    )  # fmt: skip
