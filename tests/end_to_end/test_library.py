"""The library: its errors, and what an opened project answers. test_offline.py runs
docs/LIBRARY.md's example.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import engine_here

from engine import Project
from engine.core.errors import NotBuiltError, UsageError
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder


def test_an_opened_project_searches_and_reports(finished: Path) -> None:
    project = Project.open(finished)
    result = project.search(
        "freezer door left open",
        mode="bm25",
        top=3,
        paths=("incidents/**",),
    )
    assert [hit.rank for hit in result.hits] == [1, 2, 3]
    assert all(hit.path.startswith("incidents/") for hit in result.hits)
    request = Search("freezer door left open", "keywords", paths=("incidents/**",))  # type: ignore[arg-type]
    assert project.search(request, top=3) == result
    assert {stage.state for stage in project.status()} == {"done"}
    assert project.counts()["judged_queries"] == 130
    assert project.skipped() == {}
    report = project.report()
    assert report.outdated == ""
    assert report.in_use.keys() == report.rungs.keys() == {"semantic", "hybrid"}
    assert [mode.sentence for mode in report.verdict.modes] == [
        report.in_use[mode.mode].reason for mode in report.verdict.modes
    ]
    project.close()
    project.close()


def test_figures_of_other_settings_are_called_out_of_date(adapted: ProjectFolder) -> None:
    engine_here(
        "config",
        "set",
        str(adapted.path),
        "ranking.m",
        "7",
    )
    assert Project.open(adapted.path).report().outdated == "train is stale"
    assert json.loads(engine_here("report", str(adapted.path), "--json").stdout)["outdated"]
    assert "train is stale" in engine_here("report", str(adapted.path)).stderr


def test_errors_are_typed(tmp_path: Path) -> None:
    with fails(UsageError, "project-missing"):
        Project.open(tmp_path / "nowhere")
    project = Project.create(tmp_path / "made", [tmp_path])
    with fails(NotBuiltError, "not-built", stage="index"):
        project.search("x", mode="bm25")
    with pytest.raises(NotBuiltError) as caught:
        project.report()
    assert (caught.value.code, caught.value.stage) == ("not-built", "evaluate")
    with fails(UsageError, "stage-unknown", "'bake'"):
        project.run(["bake"])
    project.close()
