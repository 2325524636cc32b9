"""What a run's events add up to; histories over several runs; curves made fit to be drawn."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fixtures.training_events import step
from hypothesis import given, settings
from hypothesis import strategies as st

from bmembed_tui.client.progress import format_progress
from bmembed_tui.client.project_status import STEPS, find_step_state
from bmembed_tui.client.run_history import read_history
from bmembed_tui.client.run_state import CURVE_POINTS, RunState
from bmembed_tui.project.run_line import RunLine
from bmembed_tui.steps.index.text import format_status as index_status
from bmembed_tui.steps.train.loss_chart import find_envelope, find_limits, keep_finite, smooth
from bmembed_tui.steps.train.text import format_status as train_status
from engine.core.events import (
    KINDS,
    Choice,
    Event,
    EventLog,
    HeldOut,
    Paused,
    Progress,
    Resumed,
    RunEstimated,
    RunFinished,
    RunStarted,
    StageFailed,
    StageFinished,
    StageSkipped,
    StageStarted,
    Warned,
    decode,
    encode,
)
from engine.core.messages.project import ProjectStatus, StageState


def check(
    number: int,
    best: bool = False,
    hit: float = 50.0,
) -> HeldOut:
    return HeldOut(
        step=number,
        hit_at_10=hit,
        ndcg_at_10=40.0,
        best=best,
    )


def started(stage: str, fingerprint: str = "f1") -> StageStarted:
    return StageStarted(
        stage=stage,
        fingerprint=fingerprint,
        reason="not built yet",
    )


def finished(
    stage: str,
    seconds: float = 2.0,
    **summary: Any,
) -> StageFinished:
    return StageFinished(
        stage=stage,
        seconds=seconds,
        peak_memory_mb=9.0,
        summary=summary,
    )


def after(*events: Event) -> RunState:
    state = RunState()
    state.apply_all(events)
    return state


TEXTS = st.sampled_from(["", "train", "ingest", "[/", "x\n\x1b"]) | st.text(max_size=5)
NUMBERS = st.integers(-5, 10**6)
FLOATS = st.floats(allow_nan=True, allow_infinity=True) | NUMBERS
ANYTHING: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | NUMBERS | FLOATS | TEXTS | st.lists(TEXTS, max_size=3)
)
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXTS,
    "int": NUMBERS,
    "float": FLOATS,
    "bool": st.booleans(),
    "list[str]": st.lists(TEXTS, max_size=4),
    "dict[str, Any]": st.dictionaries(
        st.sampled_from(["adapter", "steps", "best_step", "chunks", "k", "queries"]), ANYTHING
    ),
    "dict[str, float]": st.dictionaries(TEXTS, FLOATS),
    "dict[str, str]": st.dictionaries(st.sampled_from(["what", "why"]), TEXTS),
}


@st.composite
def any_event(draw: st.DrawFn) -> Event | None:
    kind = draw(st.sampled_from(sorted(KINDS)))
    wrong = draw(st.integers(0, 9)) == 0
    values = {
        part.name: draw(ANYTHING if wrong else OF_KIND[str(part.type)])
        for part in fields(KINDS[kind])
    }
    return decode(encode(KINDS[kind](**values)))


@settings(max_examples=300)
@given(st.lists(any_event(), max_size=40), st.booleans())
def test_no_order_of_events_raises(events: list[Event | None], running: bool) -> None:
    state = after(*(event for event in events if event is not None))
    steps = [one.step for one in state.steps]
    assert steps == sorted(set(steps))
    stages = tuple(StageState(name, "stale", "x") for name in ("index", "rank", "train"))
    status = ProjectStatus(running=running, stages=stages)
    for one in STEPS:
        find_step_state(one, status, state)
    RunLine("x").draw(status, state)
    from bmembed_tui.client.run_history import History

    train_status(
        status,
        state,
        History(),
        "",
    )
    index_status(status, state, History())
    state.mark_lost()
    assert state.over


@pytest.mark.parametrize(
    ("ingest", "shown"), [("done", "17 documents"), ("stale", "the last run was stopped")]
)
def test_a_run_that_was_stopped_is_named_until_what_it_began_is_up_to_date(
    ingest: str, shown: str
) -> None:
    state = after(
        RunStarted(run="r", stages=["ingest", "train"]),
        started("ingest"),
        RunFinished(run="r", state="cancelled", seconds=1.0),
    )
    stages = (StageState("ingest", ingest, "x"), StageState("train", "to do", "x"))
    line = RunLine("x")
    line.draw(ProjectStatus(stages=stages, counts={"documents": 17, "chunks": 342}), state)
    assert shown in str(line.content)


def test_what_the_whole_run_will_take_is_kept() -> None:
    estimate = RunEstimated(
        chunks=9,
        seconds={"train": 300.0},
        unknown=["generate"],
    )
    assert after(RunStarted(run="r", stages=["train"])).estimate is None
    state = after(
        RunStarted(run="r", stages=["ingest", "train"]),
        estimate,
        started("train"),
    )
    assert state.estimate == estimate
    assert state.current == "train"


def test_a_run_from_its_begin_to_its_end() -> None:
    state = after(
        RunStarted(run="r", stages=["ingest", "train"]),
        StageSkipped(stage="ingest", reason="up to date"),
        started("train"),
        Choice(stage="train", setting="device", value="cpu", reason="no GPU"),
        Choice(stage="train", setting="device", value="cuda", reason="a GPU"),
        Warned(stage="train", text="warm"),
        Warned(stage="run", text="repaired"),
        step(1, 3.0),
        check(0, best=True),
        step(2, 2.0),
    )
    assert (state.running, state.over, state.current) == (True, False, "train")
    assert [one.loss for one in state.steps] == [3.0, 2.0]
    assert state.stages["train"].choices["device"].value == "cuda"
    assert state.stages["train"].warnings == ["warm"]
    assert (list(state.stages), state.warnings) == (["ingest", "train"], ["repaired"])
    assert format_progress(state) == " · step 2 of 100"
    state.apply_all(
        [finished("train", adapter="a"), RunFinished(run="r", state="done", seconds=4.0)]
    )
    assert (state.state, state.over, state.current, state.seconds) == ("done", True, "", 4.0)
    assert state.stages["ingest"].state == "skipped"
    assert (state.stages["train"].state, state.stages["train"].summary) == (
        "done",
        {"adapter": "a"},
    )


def test_a_pause_ends_with_the_run_or_with_the_next_stage() -> None:
    state = after(
        RunStarted(run="r", stages=["train"]),
        started("train"),
        Paused(stage="train"),
    )
    assert state.paused
    state.apply(Resumed(stage="train"))
    assert not state.paused
    state.apply_all([Paused(stage="embed"), started("embed")])
    assert not state.paused
    state.apply_all([Paused(stage="embed"), RunFinished(run="r", state="cancelled", seconds=1.0)])
    assert not state.paused


def test_a_run_that_is_gone_is_lost() -> None:
    state = after(
        RunStarted(run="r", stages=["train"]), started("train"), step(3), Paused(stage="train")
    )
    state.mark_lost()
    assert (state.state, state.over, state.paused, state.current) == ("lost", True, False, "")
    assert state.stages["train"].state == "lost"


def test_steps_of_a_resumed_training_replace_later_ones() -> None:
    state = after(
        *(step(n) for n in (1, 2, 3, 4)), check(2, best=True), check(4), step(3, 9.0), check(3)
    )
    assert [(one.step, one.loss) for one in state.steps] == [(1, 1.0), (2, 1.0), (3, 9.0)]
    assert [one.step for one in state.held_out] == [2, 3]


def test_a_long_training_is_thinned_and_keeps_its_last_step() -> None:
    state = RunState()
    for number in range(1, 100_001):
        state.apply(step(number, steps=100_000))
    assert len(state.steps) <= CURVE_POINTS
    assert state.steps[-1].step == 100_000
    assert state.steps[0].step == 1
    gaps = [b.step - a.step for a, b in zip(state.steps, state.steps[1:], strict=False)]
    assert max(gaps) < 100_000 / 2000  # still several for every column of a screen


# Histories


def write(
    runs: Path,
    name: str,
    *events: Event,
) -> None:
    (runs / name).mkdir(parents=True)
    log = EventLog(runs / name / "events.jsonl")
    for event in events:
        log(event)
    log.close()


def test_a_resumed_training_shows_the_part_of_the_run_before(tmp_path: Path) -> None:
    write(
        tmp_path,
        "1",
        RunStarted(run="1", stages=["train"]),
        started("train"),
        check(0, best=True),
        step(1),
        step(2),
        step(3),
    )
    live = after(RunStarted(run="2", stages=["train"]), started("train"))
    history = read_history(tmp_path, before="2")
    assert [one.step for one in history.build_curve(live, current=False).steps] == [1, 2, 3]
    live.apply_all([step(3, 7.0), step(4, 6.0)])  # the checkpoint was that of step 2
    curve = history.build_curve(live, current=False)
    assert [(one.step, one.loss) for one in curve.steps] == [(1, 1.0), (2, 1.0), (3, 7.0), (4, 6.0)]
    assert curve.best == check(0, best=True)


def test_a_training_with_other_settings_or_started_again_has_its_own_curve(tmp_path: Path) -> None:
    write(
        tmp_path,
        "1",
        started("train"),
        check(0, best=True),
        step(1),
        step(2),
    )
    history = read_history(tmp_path)
    other = after(started("train", "f2"), step(1, 5.0))
    assert [one.loss for one in history.build_curve(other, current=False).steps] == [5.0]
    anew = after(
        started("train"),
        check(0, best=True),
        step(1, 4.0),
    )
    curve = history.build_curve(anew, current=False)
    assert ([one.loss for one in curve.steps], len(curve.held_out)) == ([4.0], 1)
    write(
        tmp_path,
        "2",
        started("train"),
        check(0),
        step(1),
        finished("train", adapter="a"),
    )
    again = after(started("train"), step(2, 3.0))
    assert [one.loss for one in read_history(tmp_path).build_curve(again, current=False).steps] == [
        3.0
    ]


def test_a_training_that_was_killed_after_its_last_step_is_finished_by_the_run_that_resumes_it(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        "1",
        started("train"),
        check(0),
        step(1),
        step(2),
    )
    write(
        tmp_path,
        "2",
        started("train"),
        finished("train", adapter="a"),
    )
    curve = read_history(tmp_path).trained
    assert ([one.step for one in curve.steps], curve.finished) == ([1, 2], True)


def test_the_adapters_own_curve_is_found_below_later_runs(tmp_path: Path) -> None:
    write(
        tmp_path,
        "1",
        started("train"),
        step(1),
        step(2),
        finished("train", 7.0, adapter="a", steps=2),
    )
    write(
        tmp_path,
        "2",
        StageSkipped(stage="train", reason="up to date"),
        started("embed"),
        finished("embed"),
    )
    write(
        tmp_path,
        "3",
        started("train", "f2"),
        step(1, 9.0),
    )
    history = read_history(tmp_path)
    nothing = RunState()
    assert [one.loss for one in history.build_curve(nothing, current=True).steps] == [1.0, 1.0]
    assert [one.loss for one in history.build_curve(nothing, current=False).steps] == [9.0]
    record = history.find_record(nothing, "train")
    assert record is not None
    assert (record.seconds, record.summary["adapter"]) == (7.0, "a")


def test_damaged_logs_are_passed_over(tmp_path: Path) -> None:
    write(
        tmp_path,
        "1",
        started("index"),
        Choice(stage="index", setting="language", value="en", reason="r"),
        finished("index", chunks=3),
    )
    with (tmp_path / "1" / "events.jsonl").open("ab") as file:
        file.write(
            b'\xff\xfe{"event": "progress"}\n[1]\n{"event": "stage_finished", "stage": 4,'
            b' "seconds": "x", "summary": 1}\n'
        )
    (tmp_path / "2").mkdir()
    (tmp_path / "3").write_text("a file")
    record = read_history(tmp_path).stages["index"]
    assert (record.summary, record.choices["language"].value) == ({"chunks": 3}, "en")
    assert read_history(tmp_path / "none").stages == {}


# Curves


def test_curves_lose_what_is_no_number_and_keep_their_spikes() -> None:
    assert keep_finite([(1, math.nan), (2, 5), (3, math.inf)]) == [(2.0, 5.0)]
    points = [(float(n), 1.0) for n in range(100_000)]
    points[54_321] = (54_321.0, 80.0)
    points[54_322] = (54_322.0, -80.0)
    drawn = find_envelope(points, 40)
    assert len(drawn) <= 2 * 41
    assert (54_321.0, 80.0) in drawn
    assert (54_322.0, -80.0) in drawn
    assert (drawn[0], drawn[-1][1]) == (points[0], 1.0)
    assert find_envelope([], 40) == smooth([]) == []
    assert find_envelope([(3.0, 1.0)], 40) == [(3.0, 1.0)]


def test_a_smoothed_curve_is_the_running_mean() -> None:
    assert smooth([(1.0, 4.0)]) == [(1.0, 4.0)]
    (_, first), (_, second) = smooth([(1.0, 4.0), (2.0, 1.0)])
    assert (first, second) == (
        4.0,
        pytest.approx((0.8 * 0.2 * 4 + 0.2 * 1) / (0.8 * 0.2 + 0.2)),
    )  # a mean over five
    assert all(
        value == pytest.approx(2.5) for _, value in smooth([(float(n), 2.5) for n in range(500)])
    )


def test_limits_have_room() -> None:
    low, high = find_limits([(0.0, 2.0), (1.0, 3.0)], 10)
    assert (low, high) == pytest.approx((1.94, 3.06))
    low, high = find_limits([(0.0, 4.0)], 10)
    assert low < 4.0 < high


def test_progress_without_a_total_and_progress_that_is_over_are_empty() -> None:
    state = after(started("rank"), Progress(stage="rank", done=0, total=0, unit="queries"))
    assert format_progress(state) == ""
    state.apply(Progress(stage="rank", done=1000, total=2000, unit="queries"))
    assert format_progress(state) == " · 1,000 of 2,000 queries"
    state.apply(Progress(stage="rank", done=1000, total=2000, unit="files", item="large.csv"))
    assert format_progress(state).endswith("large.csv")
    state.apply(Progress(stage="rank", done=2000, total=2000, unit="queries"))
    assert format_progress(state) == ""  # over: what follows in the stage is not counted
    state.apply(StageFailed(stage="rank", error={"what": "broken"}))
    assert state.stages["rank"].state == "failed"
    assert state.error is not None
    assert state.error.what == "broken"
