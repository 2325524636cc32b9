"""Interpolations of base and adapted encoder are compared with both, over the whole corpus."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.pipeline import engine_here

from engine.evaluation.reporting.report import read_report
from engine.project.folder import ProjectFolder


def test_the_weights_that_are_wanted_are_candidates_and_stand_in_the_report(project: Path) -> None:
    changes = {"training.adapter_scope": "both", "evaluation.interpolation_weights": [0.75, 0.25]}
    ProjectFolder.open(project).change_settings(changes)
    engine_here("adapt", str(project))
    report = read_report(Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"]))
    decision = report["selection"]["decision"]
    names = [one["name"] for one in decision["candidates"]]
    assert names == ["interpolated-0.25", "interpolated-0.75", "adapted"]
    assert decision["reference"] == "base"
    assert {one["rung"] for one in decision["ladder"]} == {"judged", "document", "extractive"}


def test_in_another_default_mode_the_gate_decides_anew(project: Path) -> None:
    def state() -> str:
        stages = json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
        return next(one["state"] for one in stages if one["stage"] == "evaluate")

    states = []
    for mode in ("hybrid", "bm25", "semantic"):
        ProjectFolder.open(project).change_settings({"search.mode": mode})
        states.append(state())
    assert states == ["done", "done", "stale"]  # where BM25 is the default, the encoder is for hybrid search


def test_judged_questions_alone_decide_how_hybrid_search_fuses(project: Path) -> None:
    few = {
        "training.steps": 2,
        "evaluation.heldout_share": 0.1,
    }  # too few extractive queries to say that the language is not known
    ProjectFolder.open(project).change_settings(few)
    engine_here("adapt", str(project))
    report = read_report(Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"]))
    assert [one["rung"] for one in report["fusion"]["decision"]["ladder"]] == ["judged"]
    assert "document" in {one["rung"] for one in report["selection"]["decision"]["ladder"]}
