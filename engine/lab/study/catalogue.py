"""The studies of assets/studies.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from engine.core.assets import asset_path
from engine.core.errors import unknown_name
from engine.evaluation.comparison import MULTIHOP
from engine.lab.study.grid import Cell, combinations, label_of
from engine.lab.study.measures import SETS
from engine.project.stage import fingerprint

Changes = dict[str, Any]
STEP = "step"
"""The column with the training step of a row."""
UNTRAINED = (
    "bm25",
    "base",
    "rrf_base",
    "black box",
    "small model",
    "concatenation",
)
"""Systems that no training changes.

In a study, a comma and a change may follow the name, such as `base, mask shared`.
"""
FIXED: Changes = {
    "training.keep": "last",
    "ranking.keep_evidence": False,
    "evaluation.plain_bm25": True,
}
"""Settings of all papers, unless a cell overrides them.

The papers train a fixed number of steps and do not choose a checkpoint. They do not add the chunk
that a query was made from to its lists. Their BM25 has no bonus for codes, and sees the same part
of a chunk as encoders.
"""
METRICS = ("ndcg@10", "hit@1", "hit@4", "hit@10")
MAP = (MULTIHOP, "map@10")
"""MAP for queries with evidence, and for others: the first that was measured is shown."""


class Entry(BaseModel):
    """A table of the catalogue."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
    )


class Chart(Entry):
    """A chart of a study.

    - `line`: the column `y` over the setting `x` (`1/…`: over its inverse), with a line for each
      value of the setting `by`.
    - `scatter`: a point for the columns `x` and `y` of each row.
    - `gap`: a bar for the difference `y` of each row.
    - The other kinds are densities.
    """

    kind: Literal["line", "scatter", "gap", "similarities", "general similarities", "distances"]
    x: str = ""
    y: str = ""
    by: str = ""


class Correlation(Entry):
    """A correlation of the two columns in `of`, over the rows of the systems in `over` (or all)."""

    of: list[str]
    over: list[str] = []


class Study(Entry):
    """A study, which repeats a table or figure of a paper."""

    name: str
    source: str
    """The paper and its table or figure."""
    shows: str
    """What the table shows."""
    differs: str
    """How the study differs from the paper."""
    columns: list[str]
    """Measures; in `A|B`, the first that was measured counts."""
    trainings: list[tuple[str, Changes]] = []
    """Label and settings of each cell."""
    by: Literal["stages", "black box"] = "stages"
    """Whether cells are trained and measured by the stages, or as Mafin's comparison."""
    systems: dict[str, str] = {}
    """System to compare → its label."""
    needs: list[Literal["judged questions", "sentence pairs", "small model"]] = []
    """What the project must have."""
    charts: list[Chart] = []
    correlations: list[Correlation] = []
    facts: Literal["", "statistics", "perturbed", "questions"] = ""
    """What to report about the project as it is, instead of trainings."""

    @property
    def measures(self) -> list[str]:
        """The columns, and the step of each row."""
        if self.facts or "best step" in self.columns:
            return self.columns
        return [*self.columns, STEP]

    def with_top_k(self, top_k: int) -> Study:
        """Return the study with columns such as accuracy@3 in place of accuracy@5.

        `top_k` is the option lab.top_k, the K of bootstrapped figures.
        """

        def rename(columns: list[str]) -> list[str]:
            return [re.sub(r"^(accuracy|nDCG)@5", rf"\1@{top_k}", column) for column in columns]

        correlations = []
        for correlation in self.correlations:
            correlations.append(correlation.model_copy(update={"of": rename(correlation.of)}))
        changes = {"columns": rename(self.columns), "correlations": correlations}
        return self.model_copy(update=changes)

    def with_measured_names(self, measured: Collection[str]) -> Study:
        """Return the study with one name for each column: of `A|B`, the first that was measured.

        If none was measured, it is the first name. `measured`: the names of all measures that any
        training has.
        """

        def choose(column: str) -> str:
            names = column.split("|")
            return next((name for name in names if name in measured), names[0])

        charts = []
        for chart in self.charts:
            charts.append(chart.model_copy(update={"x": choose(chart.x), "y": choose(chart.y)}))
        columns = [choose(column) for column in self.columns]
        return self.model_copy(update={"columns": columns, "charts": charts})


@cache
def catalogue() -> dict[str, Study]:
    """Return every study by name."""
    data = tomllib.loads(asset_path("studies.toml").read_text(encoding="utf-8"))
    # An entry of `cells` stands for a training with each combination of the values in `vary`.
    trainings_of: dict[str, list[tuple[str, Changes]]] = {}
    for cell_name, cell in data["cells"].items():
        label = cell.pop("label", "")
        vary = cell.pop("vary", {})
        trainings_of[cell_name] = []
        for varied in combinations(vary):
            changes = {**FIXED, **cell, **varied}
            trainings_of[cell_name].append((label or label_of(varied), changes))
    studies = {}
    for name, entry in data["studies"].items():
        trainings: list[tuple[str, Changes]] = []
        for cell_name in entry.pop("cells", ()):
            trainings += trainings_of[cell_name]
        studies[name] = Study(
            name=name,
            trainings=trainings,
            **entry,
        )
    return studies


def study_of(name: str) -> Study:
    """Return the study of a name.

    Raises UsageError for an unknown name, with the nearest one.
    """
    studies = catalogue()
    if name not in studies:
        raise unknown_name(
            "study",
            name,
            studies,
            code="study-unknown",
        )
    return studies[name]


def sweep_of(cells: Sequence[Cell]) -> Study:
    """Return a study of base and the adapted encoder of every cell.

    It measures on judged, document-written and held-out queries.
    """
    columns = []
    charts = []
    for prefix in dict.fromkeys(SETS.values()):
        gap = f"Δ {prefix}ndcg@10"
        columns.append(gap)
        columns += [f"{prefix}{metric}" for metric in METRICS]
        columns.append("|".join(f"{prefix}{metric}" for metric in MAP))
        charts.append(Chart(kind="gap", y=gap))
    return Study(
        name="sweep-" + fingerprint(cells=[dict(cell.changes) for cell in cells]),
        source="Sweep",
        shows="The adapted encoder against base, with every combination of settings",
        differs=(
            "Held-out queries are made from the documents (synthetic): they flatter every system."
            " Of many cells about one in twenty is called better or worse by chance, and the best"
            " one owes part of its lead to luck: measure it again with another seed."
        ),
        columns=[*columns, "alignment", "uniformity", "best step"],
        systems={"bm25": "BM25", "base": "base", "adapted": ""},
        charts=charts,
    )
