"""The studies of assets/studies.toml."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Sequence
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
UNTRAINED = ("bm25", "base", "rrf_base", "black box", "small model", "concatenation")
"""Systems that no training changes; a comma and the change to the queries may follow."""
FIXED: Changes = {
    "training.keep": "last",
    "ranking.keep_evidence": False,
    "evaluation.plain_bm25": True,
}
"""Settings of all papers, unless a cell overrides them.

They train a fixed number of steps and do not choose a checkpoint. Lists stay as they were drawn.
BM25 has no bonus for codes, and sees the same part of a chunk as encoders.
"""
METRICS = ("ndcg@10", "hit@1", "hit@4", "hit@10", f"{MULTIHOP}|map@10")


class Entry(BaseModel):
    """A table of the catalogue."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Chart(Entry):
    """A chart of a study.

    `line`: `y` of the last system over the setting `x` ("1/…": over its inverse), with a line for
    each value of the setting `by`. `scatter`: `x` and `y` of each row. `gap`: the difference `y` of
    each row. The other kinds are densities.
    """

    kind: Literal["line", "scatter", "gap", "similarities", "general similarities", "distances"]
    x: str = ""
    y: str = ""
    by: str = ""


class Study(Entry):
    """A study.

    `source`: the paper's table. `also`: other names of the study. `shows`: what it shows;
    `differs`: how it differs from the paper. `trainings`: label and settings of each cell, trained
    and measured `by` the stages or as Mafin's comparison. `systems`: the systems compared, with
    their labels. `columns`: measures; of several names separated by a bar, the first that was
    measured counts. `facts`: what to report about the project as it is, in place of trainings.
    `correlations`: pairs of columns.
    """

    name: str
    also: list[str] = []
    source: str
    shows: str
    differs: str
    columns: list[str]
    trainings: list[tuple[str, Changes]] = []
    by: Literal["stages", "black box"] = "stages"
    systems: dict[str, str] = {}
    needs: list[Literal["judged questions", "sentence pairs", "small model"]] = []
    charts: list[Chart] = []
    correlations: list[list[str]] = []
    facts: Literal["", "statistics", "perturbed", "questions"] = ""

    @property
    def measures(self) -> list[str]:
        """The columns, and the step of each row."""
        if self.facts or "best step" in self.columns:
            return self.columns
        return [*self.columns, STEP]

    def at(self, top: int) -> Study:
        """Return the study with bootstrapped figures over the best `top` hits of a query.

        `top` is the option lab.top_k.
        """

        def named(columns: list[str]) -> list[str]:
            return [re.sub(r"^(accuracy|nDCG)@5", rf"\1@{top}", column) for column in columns]

        return self.model_copy(
            update={
                "columns": named(self.columns),
                "correlations": [named(pair) for pair in self.correlations],
            }
        )


@cache
def catalogue() -> dict[str, Study]:
    """Return every study by name."""
    found = tomllib.loads(asset_path("studies.toml").read_text(encoding="utf-8"))
    cells = {}
    for name, cell in found["cells"].items():
        label = cell.pop("label", "")
        vary = cell.pop("vary", {})
        cells[name] = [
            (label or label_of(varied), {**FIXED, **cell, **varied})
            for varied in combinations(vary)
        ]
    return {
        name: Study(
            name=name,
            trainings=[one for cell in entry.pop("cells", ()) for one in cells[cell]],
            **entry,
        )
        for name, entry in found["studies"].items()
    }


def study_of(name: str) -> Study:
    """Return the study of a name.

    Raises UsageError for an unknown name, with the nearest one.
    """
    studies = {one: study for study in catalogue().values() for one in (study.name, *study.also)}
    if name not in studies:
        raise unknown_name("study", name, studies, code="study-unknown")
    return studies[name]


def sweep_of(cells: Sequence[Cell]) -> Study:
    """Return a study of base and the adapted encoder of every cell.

    It measures on judged, document-written and held-out queries.
    """
    of_sets = [(f"Δ {queries}", queries) for queries in SETS.values()]
    columns = [
        [f"{gap}ndcg@10", *(f"{queries}{metric}" for metric in METRICS)] for gap, queries in of_sets
    ]
    return Study(
        name="sweep-" + fingerprint(cells=[dict(cell.changes) for cell in cells]),
        source="Sweep",
        shows="The adapted encoder against base, with every combination of settings",
        differs=(
            "Held-out queries are made from the documents (synthetic): they flatter every system."
            " Of many cells about one in twenty is called better or worse by chance, and the best"
            " one owes part of its lead to luck: measure it again with another seed."
        ),
        columns=[*itertools.chain(*columns), "alignment", "uniformity", "best step"],
        systems={"bm25": "BM25", "base": "base", "adapted": ""},
        charts=[Chart(kind="gap", y=f"{gap}ndcg@10") for gap, _ in of_sets],
    )
