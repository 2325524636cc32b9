"""What the sidebar says of each step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmembed_tui.client.project_status import (
    STAGES,
    STEPS,
    find_step,
    find_step_state,
    format_current_step,
    format_step_titles,
)
from bmembed_tui.client.run_state import RunState
from bmembed_tui.project.sidebar import SIGNS
from engine.core.events import Paused, RunStarted, StageFailed, StageStarted
from engine.core.messages.project import ProjectStatus, StageState

STEP = {step.key: step for step in STEPS}


def status(running: bool = False, **states: str) -> ProjectStatus:
    return ProjectStatus(
        running=running,
        stages=tuple(StageState(stage, states.get(stage, "to do"), "") for stage in STAGES),
    )


@pytest.mark.parametrize(
    ("step", "states", "shown"),
    [
        ("documents", {}, "to do"),
        ("documents", {"ingest": "done"}, "done"),
        ("model", {"ingest": "done"}, "to do"),
        ("model", {"generate": "stale"}, "done"),
        ("model", {"embed": "stale"}, "done"),
        ("index", {"index": "done"}, "keywords"),
        ("index", {"index": "done", "rank": "stale"}, "stale"),
        ("result", {"evaluate": "done", "embed": "stale"}, "done"),
        ("search", {}, "to do"),
        ("search", {"index": "done"}, "keywords"),
        ("search", {"index": "done", "embed": "stale"}, "stale"),
        ("search", {"index": "done", "embed": "done"}, "done"),
    ],
)
def test_states(
    step: str,
    states: dict[str, str],
    shown: str,
) -> None:
    assert find_step_state(STEP[step], status(**states), RunState()) == shown


@pytest.mark.parametrize(
    ("counts", "shown"), [({"queries": 0}, "none"), ({"queries": 7}, "done"), ({}, "done")]
)
def test_generation_that_kept_no_query_is_not_marked_as_done(
    counts: dict[str, int], shown: str
) -> None:
    made = replace(status(generate="done"), counts=counts)
    assert find_step_state(STEP["queries"], made, RunState()) == shown
    assert (
        find_step_state(
            STEP["queries"], replace(made, stages=status(generate="stale").stages), RunState()
        )
        == "stale"
    )
    assert shown in SIGNS
    assert SIGNS[shown][0] == {"none": "✗", "done": "✓"}[shown]


def test_steps_have_no_state_before_anything_is_known() -> None:
    assert {find_step_state(step, ProjectStatus(), RunState()) for step in STEPS} == {""}


def test_a_model_that_was_looked_at_is_done() -> None:
    assert find_step_state(STEP["model"], status(), RunState(), frozenset({"model"})) == "done"


def test_a_run_shows_where_it_is() -> None:
    run = RunState()
    run.apply_all(
        [
            RunStarted(run="1", stages=list(STAGES)),
            StageStarted(stage="rank", fingerprint="", reason=""),
        ]
    )
    assert find_step_state(STEP["index"], status(running=True), run) == "running"
    assert find_step_state(STEP["train"], status(running=True), run) == "to do"
    run.apply(Paused(stage="rank"))
    assert find_step_state(STEP["index"], status(running=True), run) == "paused"
    run.apply(StageFailed(stage="rank", error={"what": "x"}))
    assert find_step_state(STEP["index"], status(), run) == "failed"


@pytest.mark.parametrize("stage", ["index", "rank"])
def test_a_stage_that_has_begun_since_the_status_was_read_is_running(stage: str) -> None:
    """The rail said "4 Index to do" next to "building the keyword index …"."""
    run = RunState()
    run.apply_all(
        [
            RunStarted(run="1", stages=list(STAGES)),
            StageStarted(stage=stage, fingerprint="", reason=""),
        ]
    )
    assert find_step_state(STEP["index"], status(ingest="done"), run) == "running"
    assert find_step_state(STEP["train"], status(ingest="done"), run) == "to do"
    run.apply(Paused(stage=stage))
    assert find_step_state(STEP["index"], status(ingest="done"), run) == "paused"
    run.mark_lost()
    assert find_step_state(STEP["index"], status(ingest="done"), run) == "to do"


def test_what_is_embedded_is_for_search() -> None:
    run = RunState()
    run.apply(RunStarted(run="1", stages=list(STAGES)))
    run.apply(StageStarted(stage="embed", fingerprint="", reason=""))
    assert {
        one for one in STEP if find_step_state(STEP[one], status(running=True), run) == "running"
    } == {"search"}
    assert format_current_step(run) == STEP["search"].title


def test_stages_are_called_by_their_steps() -> None:
    assert format_step_titles(STAGES) == "Documents, Index, Queries, Train, Evaluate, Search"
    assert (format_step_titles([]), format_step_titles(["rank", "unknown", "index"])) == (
        "",
        "Index",
    )


def test_every_stage_has_a_step() -> None:
    assert [find_step(stage) for stage in STAGES] == [
        "documents",
        "index",
        "queries",
        "index",
        "train",
        "result",
        "search",
    ]
