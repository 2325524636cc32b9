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
    report = read_report(
        Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"])
    )
    semantic, hybrid = (report["selection"][mode]["decision"] for mode in ("semantic", "hybrid"))
    encoders = ["interpolated-0.25", "interpolated-0.75", "adapted"]
    assert [candidate["name"] for candidate in semantic["candidates"]] == encoders
    assert (semantic["reference"], hybrid["reference"]) == ("base", "base 0.5")
    pairs = [(candidate["encoder"], candidate["share"]) for candidate in hybrid["candidates"]]
    shares = [0.5, 0.4, 0.6, 0.7]
    assert pairs == [(name, share) for name in ("base", *encoders) for share in shares][1:]
    for decision in (semantic, hybrid):
        assert {step["rung"] for step in decision["ladder"]} == {"judged", "document", "extractive"}


def test_the_default_mode_changes_nothing_of_what_each_mode_uses(project: Path) -> None:
    def state() -> str:
        stages = json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
        return next(stage["state"] for stage in stages if stage["stage"] == "evaluate")

    states = []
    for changes in (
        {"search.mode": "bm25"},
        {"search.mode": "semantic"},
        {"search.mode": "hybrid"},
        {"evaluation.gate": "expected"},
    ):
        ProjectFolder.open(project).change_settings(changes)
        states.append(state())
    assert states == ["done", "done", "done", "stale"]


def test_judged_questions_alone_weigh_shares_of_the_score(project: Path) -> None:
    few = {"training.steps": 2, "evaluation.use_judged": False}
    ProjectFolder.open(project).change_settings(few)
    engine_here("adapt", str(project))
    report = read_report(
        Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"])
    )
    decision = report["selection"]["hybrid"]["decision"]
    assert "judged" not in {step["rung"] for step in decision["ladder"]}
    measured = {
        candidate["share"] for candidate in decision["candidates"] if candidate["difference"]
    }
    assert measured == {0.5}
    assert {candidate["share"] for candidate in decision["candidates"]} == {0.4, 0.5, 0.6, 0.7}
