"""Interpolations are compared over the whole corpus where it is small, else among the chunks next to held-out queries."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from fixtures.pipeline import engine_here

from engine.evaluation.reporting.report import read_report
from engine.project.folder import ProjectFolder


def evaluated(project: Path, most: int) -> tuple[set[str], list[dict[str, Any]]]:
    """The candidates that were compared, and the choice of the chunks among which."""
    ProjectFolder.open(project).change_settings(
        {"training.adapter_scope": "both", "evaluation.max_interpolation_chunks": most}
    )
    events = [json.loads(line) for line in engine_here("run", str(project), "--json").stdout.splitlines()]
    report = read_report(Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"]))
    candidates = {row["name"] for row in report["selection"]["table"]}
    return candidates, [one for one in events if one.get("setting") == "interpolations compared among"]


def test_interpolations_are_compared_among_fewer_chunks_of_a_large_corpus_and_it_is_reported(project: Path) -> None:
    candidates, choices = evaluated(project, 4000)
    assert (candidates, choices) == ({"base", "interpolated-0.5", "adapted"}, [])
    candidates, choices = evaluated(project, 5)
    assert candidates == {"base", "interpolated-0.5", "adapted"}
    assert len(choices) == 1
    assert choices[0]["reason"].startswith("the corpus has more than 5 (evaluation.max_interpolation_chunks)")
    with closing(ProjectFolder(project).store()) as store:
        assert int(choices[0]["value"].removesuffix(" chunks").replace(",", "")) < store.counts()["chunks"]
