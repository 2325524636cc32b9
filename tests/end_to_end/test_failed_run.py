"""A run that failed while nobody looked: why is in the project's status.

What can be seen before it begins ends it at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here

from engine.project.folder import ProjectFolder


def test_an_unusable_reranker_ends_a_run_before_it_begins_and_is_in_its_status(
    project: Path,
) -> None:
    ProjectFolder.open(project).change_settings({"search.reranker": "no-such-folder"})
    completed = engine_here(
        "adapt",
        str(project),
        "--force",
        "--json",
        check=False,
    )
    events = [json.loads(line) for line in completed.stdout.splitlines()]
    assert [event["event"] for event in events] == ["run_started", "stage_failed", "run_finished"]
    assert completed.returncode != 0
    run = json.loads(max((project / "runs").glob("*/run.json")).read_text())
    assert (run["state"], run["error"]["code"]) == ("failed", events[1]["error"]["code"])
    printed = engine_here("status", str(project)).stdout
    assert "no-such-folder" in printed
    ProjectFolder.open(project).change_settings({"search.reranker": ""})
    engine_here(
        "run",
        str(project),
        "--only",
        "ingest",
    )
    assert "failed" not in engine_here("status", str(project)).stdout


@pytest.mark.parametrize(
    ("changes", "stage", "code"),
    [
        ({"queries.backend": "gguf"}, "generate", "language-model-not-chosen"),
        ({"queries.backend": "endpoint"}, "generate", "endpoint-not-chosen"),
        ({"training.teacher": "cross-encoder"}, "train", "cross-encoder-not-chosen"),
        (
            {"training.teacher": "cross-encoder", "training.cross_encoder": "no"},
            "train",
            "cross-encoder-invalid",
        ),
    ],
)
def test_what_a_later_stage_lacks_ends_a_run_before_it_begins(
    project: Path, changes: dict[str, Any], stage: str, code: str
) -> None:
    folder = ProjectFolder.open(project)
    folder.change_settings(changes)
    completed = engine_here(
        "adapt",
        str(project),
        "--json",
        check=False,
    )
    started, failed, finished = (json.loads(line) for line in completed.stdout.splitlines())
    assert (started["event"], failed["event"], finished["state"]) == (
        "run_started",
        "stage_failed",
        "failed",
    )
    assert failed["stage"] == stage
    assert (failed["error"]["code"], failed["error"]["stage"]) == (code, stage)


def test_a_device_that_is_not_there_ends_a_run_that_would_use_it(project: Path) -> None:
    ProjectFolder.open(project).change_settings({"encoder.device": "cuda:99"})
    completed = engine_here(
        "adapt", str(project), "--json"
    )  # all of it is up to date: no stage wants a device
    assert "stage_failed" not in completed.stdout
    completed = engine_here(
        "run", str(project), "--only", "ingest,index,evaluate", "--force", "--json", check=False
    )
    failed = [json.loads(line) for line in completed.stdout.splitlines()][1]
    assert (failed["event"], failed["stage"]) == ("stage_failed", "evaluate")
    assert failed["error"]["code"] == "device-missing"
