"""The Train step: numbers, and what can be done with a training."""

from __future__ import annotations

import asyncio
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures
from fixtures.app import (
    drive,
    notifications,
    opened,
    screen_text,
    until,
    until_pane_shows,
    until_screen,
    until_text,
)
from fixtures.long_training import STEPS, lengthen, newest, pause_steps, state_of
from fixtures.shown_numbers import numbers
from fixtures.training_events import check, step
from textual.pilot import Pilot

from bmembed_tui.client.progress import STOPPED, format_bar
from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import LOST, RunState, StageRun
from bmembed_tui.dialogs.adapt import AdaptDialog
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.project.run_line import ENDINGS
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.queries.pane import QueriesPane
from bmembed_tui.steps.train.pane import DETACH_NOTICE, MEASURING, NO_RERANKER
from bmembed_tui.steps.train.text import ENDED, WHAT_IT_DOES, format_status
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.events import RunFinished, RunStarted, StageFailed, StageStarted
from engine.core.messages.offer import AdaptationOffer, TeacherCost
from engine.core.messages.project import ProjectStatus, StageState
from engine.core.messages.wire import to_json
from engine.project.folder import ProjectFolder


def status(state: str, running: bool = False) -> ProjectStatus:
    return ProjectStatus(running=running, stages=(StageState("train", state, "why it is so"),))


def text_of(
    status_: ProjectStatus,
    state: RunState,
    history: History | None = None,
    requested: str = "",
    *,
    unfolded: bool = False,
) -> str:
    return format_status(status_, state, history or History(), requested, unfolded=unfolded).plain


def run_of(*events: Any) -> RunState:
    state = RunState()
    state.apply_all([RunStarted(run="r", stages=["rank", "train"]), *events])
    return state


BEGUN = StageStarted(
    stage="train",
    fingerprint="f",
    reason="not built yet",
)


def test_numbers_of_a_training_at_work() -> None:
    state = run_of(
        BEGUN,
        check(0, 61.0, best=True),
        step(30, 1.23456),
        check(20, 68.5, best=True),
    )
    shown = text_of(
        status("to do", running=True),
        state,
        unfolded=True,
    )
    assert [numbers(line) for line in shown.splitlines()] == [
        [30, 100, 30, 4, 10],  # the step of all, its share, minutes and seconds left
        [1.235, 0.0012, 1234, 512],  # loss, learning rate, tokens a second, memory
        [
            71.0,
            78.5,
            61.0,
            68.5,
            20,
        ],  # Hit@10 and nDCG@10, from the first check to the best, and its step
    ]
    assert format_bar(0.3) in shown
    line, *_ = text_of(status("to do", running=True), state, requested="stopping").splitlines()
    assert (numbers(line), "stopping" in line) == ([30, 100, 30], True)
    state = run_of(BEGUN, replace(step(100, 1.0), seconds_left=0.0))
    line, *_ = text_of(status("to do", running=True), state).splitlines()
    assert numbers(line) == [100, 100, 100]  # no time is left


@pytest.mark.parametrize("synthetic", [False, True])
def test_figures_of_held_out_queries_are_behind_a_fold(synthetic: bool) -> None:
    checks = [
        replace(one, synthetic=synthetic)
        for one in (check(0, 61.0, best=True), check(20, 68.5, best=True))
    ]
    state = run_of(
        BEGUN,
        checks[0],
        step(30, 1.23456),
        checks[1],
    )
    figures = {
        71.0,
        78.5,
        61.0,
        68.5,
        1.235,
    }
    folded = text_of(status("to do", running=True), state)
    assert not figures & set(numbers(folded))
    assert 20 in numbers(folded.splitlines()[-1])  # the best step
    assert figures <= set(numbers(text_of(status("to do", running=True), state, unfolded=True)))


def test_one_check_is_not_compared_with_later_ones() -> None:
    begun = (
        BEGUN,
        check(0, 61.0, best=True),
        step(3),
    )
    running = status("to do", running=True)
    assert len(text_of(running, run_of(*begun)).splitlines()) == 1, "no best step is named"
    alone = text_of(running, run_of(*begun), unfolded=True).splitlines()[-1]
    worse = text_of(
        running,
        run_of(*begun, check(20, 41.0, best=False)),
        unfolded=True,
    )
    assert numbers(alone) == numbers(worse.splitlines()[-1]) == [71.0, 61.0]
    assert alone != worse.splitlines()[-1]
    assert len(text_of(running, run_of(*begun, check(20, 41.0, best=False))).splitlines()) == 2


def test_a_key_unfolds_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        screen.go("train")
        await until_text(pilot, "┏")
        assert "●Hit@10" not in screen_text(pilot.app)  # type: ignore[arg-type]
        await pilot.press("f")
        await until_text(pilot, "●Hit@10")

    drive(story)


def test_a_long_warning_is_seen_whole_and_what_is_unfolded_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        screen.run_state.warnings.append("too short " * 30)
        screen.go("train")
        await until_text(pilot, "┏")
        more = screen.query_one("#train-more")
        await until(
            pilot,
            lambda: more.size.height >= 4,
            "the warning",
        )
        assert more.max_scroll_y == 0
        await pilot.resize_terminal(80, 24)
        await until(
            pilot,
            lambda: more.size.height == 2,
            "a smaller terminal",
        )
        await pilot.press("f")
        await until(
            pilot,
            lambda: more.size.height > 5,
            "the automatic choices",
        )

    drive(story, size=(120, 40))


def test_before_it_and_after_it() -> None:
    before = run_of(StageStarted(stage="rank", fingerprint="r", reason="x"))
    assert "▶ Index" in text_of(status("to do", True), before)
    assert WHAT_IT_DOES in text_of(status("to do"), RunState())
    record = StageRun(
        "train",
        seconds=200.0,
        summary={"adapter": "a", "steps": 1200, "best_step": 900, "ended": "no gain"},
    )
    shown = text_of(
        status("done"),
        RunState(),
        History({"train": record}),
    )
    assert numbers(shown) == [1200, 3, 20, 900]  # steps, minutes and seconds, the step that is kept
    assert ENDED["no gain"] in shown
    assert WHAT_IT_DOES not in shown
    nothing = StageRun("train", summary={"adapter": None, "reason": "too few [/ queries"})
    assert "too few [/ queries" in text_of(status("done"), RunState(), History({"train": nothing}))
    assert "why it is so" in text_of(status("stale"), RunState(), History({"train": record}))
    assert "why it is so" not in shown


def test_ends_before_the_end() -> None:
    cut = RunFinished(
        run="r",
        state="cancelled",
        seconds=1.0,
    )
    shown = text_of(status("to do"), run_of(BEGUN, step(3), cut))
    assert (numbers(shown), STOPPED in shown) == ([3, 100], False)
    error = {
        "type": "StageError",
        "what": "It broke.",
        "why": "",
        "to_do": "Mend it.",
    }
    failed = run_of(
        BEGUN,
        step(3),
        StageFailed(stage="train", error=error),
        RunFinished(run="r", state="failed", seconds=1.0),
    )
    first, second = text_of(status("to do"), failed).splitlines()
    assert (numbers(first), second) == ([3, 100], f"{error['what']} {error['to_do']}")
    lost = run_of(BEGUN, step(3))
    lost.mark_lost()
    shown = text_of(status("to do"), lost)
    assert (numbers(shown), STOPPED in shown) == ([3, 100], True)


def test_bars() -> None:
    assert (format_bar(0), format_bar(0.5), format_bar(1), format_bar(7), format_bar(math.nan)) == (
        "░" * 12,
        "█" * 6 + "░" * 6,
        "█" * 12,
        "█" * 12,
        "░" * 12,
    )


# The step in the app


def offers(screen: ProjectScreen, button: str) -> bool:
    return bool(screen.query_one(f"#train #{button}").display)


async def ready_to_train(pilot: Pilot[Any]) -> ProjectScreen:
    """The step of an adapter that is out of date."""
    screen = await opened(pilot, "train")
    primary = screen.query_one("#train #primary")
    await until(
        pilot, lambda: screen.status.state("train") == "stale" and primary.has_focus, "the step"
    )
    return screen


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_a_finished_training_is_shown_with_its_curve(
    finished_project: Path, size: tuple[int, int]
) -> None:
    async def story(pilot: Pilot[Any]) -> str:
        screen = await opened(pilot, "train")
        await until_text(pilot, "┏")
        await until(
            pilot,
            lambda: screen.status.done("train"),
            "the status",
        )
        record = screen.history.find_report(screen.run_state, "train")
        assert record.summary["steps"] == 12
        assert record.choices["objective"].value == "mixed"
        assert not record.warnings  # document-written queries suffice to compare encoders on
        assert not offers(screen, "keep")
        shown = screen_text(pilot.app)  # type: ignore[arg-type]
        assert "objective: mixed" not in shown
        if size[0] > 80:  # narrower, it is below the screen's last line
            await pilot.press("f")
            await until_text(pilot, "objective: mixed")
        await pilot.press("enter")
        await until(pilot, lambda: screen.pane is not None and screen.pane.step == "result")
        return shown

    shown = drive(
        story,
        finished_project,
        size,
        step="train",
    )
    assert 12 in numbers(shown)


def test_a_new_project_explains_training(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "train")
        await until_pane_shows(pilot, " ".join(WHAT_IT_DOES.split()))
        assert not any(offers(screen, button) for button in ("pause", "keep", "stop", "detach"))

    drive(
        story,
        new_project,
        (80, 24),
        step="train",
    )


def test_pause_go_on_and_keep_the_best(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengthen(finished_project)
    pause_steps(monkeypatch)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await ready_to_train(pilot)
        await pilot.press("enter")
        await until(
            pilot, lambda: screen.run_state.running and len(screen.run_state.steps) > 2, "steps"
        )
        await until(
            pilot,
            lambda: offers(screen, "keep"),
            "the button",
        )
        await pilot.press("p")
        await until(
            pilot,
            lambda: screen.run_state.paused,
            "the pause",
        )
        await until_text(pilot, "‖ 5 Train")
        primary = screen.query_one("#train #primary", SafeButton)
        await until(
            pilot,
            lambda: str(primary.label) == "Paused",
            "the label",
        )
        assert (screen.run_state.current, screen.is_paused) == ("train", True)
        held = screen.run_state.steps[-1].step
        await pilot.pause(1.0)
        assert screen.run_state.steps[-1].step == held
        await pilot.press("p")
        await until(
            pilot,
            lambda: not screen.run_state.paused and screen.run_state.steps[-1].step > held,
            "it to go on",
        )
        for keys in (("enter",), ("right", "enter")):
            await pilot.press("k")
            await until(
                pilot,
                lambda: isinstance(pilot.app.screen, QuestionDialog),
                "the question",
            )
            await pilot.press(*keys)
            await until(
                pilot,
                lambda: pilot.app.screen is screen,
                "the answer",
            )
            assert screen.run_state.stages["train"].state == "running" or "right" in keys
            assert (
                screen.requested == "" or "right" in keys
            )  # what was requested may have come about already
        await until(
            pilot, lambda: screen.run_state.stages["train"].state == "done", "the best adapter"
        )
        await until(
            pilot,
            lambda: screen.run_state.state == "done",
            "the rest",
        )
        await until(
            pilot, lambda: screen.pane is not None and screen.pane.step == "result", "the result"
        )
        screen.action_go("train")
        await until_pane_shows(pilot, ENDED["asked"])
        await until(
            pilot,
            lambda: screen.status.done("train"),
            "the status",
        )

    drive(story, finished_project, step="train")
    made = [
        line
        for line in (newest(finished_project) / "events.jsonl").read_text().splitlines()
        if '"train_step"' in line
    ]
    assert 2 < len(made) < STEPS


@pytest.mark.slow
def test_stop_and_detach(long_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await ready_to_train(pilot)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: screen.run_state.running and screen.run_state.steps,
            "steps",
        )
        notices = notifications(pilot.app)
        await pilot.press("d")
        await until(pilot, lambda: pilot.app.screen is not screen)
        assert DETACH_NOTICE in notices
        made = newest(long_project) / "events.jsonl"
        size = made.stat().st_size
        end = time.monotonic() + 60
        while made.stat().st_size <= size and time.monotonic() < end:
            await pilot.pause(0.1)
        assert made.stat().st_size > size
        pilot.app.open_project(ProjectFolder(long_project))  # type: ignore[attr-defined]
        again = await opened(pilot, "train")
        await until(
            pilot,
            lambda: offers(again, "keep"),
            "the button",
        )
        await pilot.press("x")
        await until(
            pilot,
            lambda: again.run_state.state == "cancelled",
            "the end",
        )
        await until(pilot, lambda: not again.status.running)
        await until_text(pilot, ENDINGS["cancelled"])

    drive(story, long_project, step="train")
    assert state_of(long_project) == "cancelled"


@pytest.mark.parametrize(("queries", "advised"), [(12, "no"), (200, "now")])
def test_before_a_first_training_it_is_said_what_that_takes_and_could_show(
    queries: int, advised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    offer = AdaptationOffer(
        {"train": 900.0},
        (),
        "document",
        queries,
        197,
        4.0,
        197,
        ("judge",),
    )
    ordered: list[str] = []

    async def estimate(*_: str) -> Any:
        return to_json(offer)

    async def order(what: str, *_: str) -> Any:
        ordered.append(what)
        await asyncio.Event().wait()

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)
    monkeypatch.setattr("bmembed_tui.steps.runs.run_detached_command", order)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        stages = [
            replace(one, state="to do") if one.stage == "train" else one
            for one in screen.status.stages
        ]
        screen.status = replace(screen.status, stages=tuple(stages))
        screen.run_state.stages.clear()
        screen.go("train")
        await until(
            pilot,
            lambda: screen.is_at("train") and pilot.app.focused,
            "the step",
        )
        await pilot.press("enter")
        dialog = await until_screen(pilot, AdaptDialog)
        await until(
            pilot,
            lambda: dialog.query_one(f"#answer-{advised}").has_focus,
            "the estimate",
        )
        assert {queries, 200} <= set(numbers(screen_text(pilot.app)))  # type: ignore[arg-type]
        assert ordered == []
        if advised == "no":
            await pilot.press("shift+tab", "shift+tab")
        await pilot.press("enter")
        await until(
            pilot,
            lambda: ordered == ["run"],
            "the run",
        )

    drive(story)


def test_a_run_whose_process_is_gone_is_shown_nowhere_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> str:
        screen = await pictures.open_project(pilot, pictures.LOST)
        await until(
            pilot,
            lambda: screen.run_state.state == LOST,
            "the end",
        )
        await until_text(pilot, ENDINGS[LOST])
        await until(
            pilot, lambda: re.search(r"5 Train +to do", screen_text(pilot.app)), "the sidebar"
        )  # type: ignore[arg-type]
        return screen_text(pilot.app)  # type: ignore[arg-type]

    shown = drive(story)
    assert "running" not in shown


def test_a_run_that_is_only_being_started_cannot_be_paused_or_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    ordered: list[str] = []

    async def order(what: str, *_: str) -> Any:
        ordered.append(what)
        await asyncio.Event().wait()

    monkeypatch.setattr("bmembed_tui.steps.runs.run_detached_command", order)

    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.open_project(pictures.RecordedProject(pictures.PROJECT), "train")  # type: ignore[attr-defined]
        screen = await opened(pilot, "train")
        screen.start_run()
        await until(
            pilot,
            lambda: screen.is_starting,
            "the start",
        )
        await pilot.press("p", "x")
        assert ordered == ["run"]
        shown = {
            name: screen.query_one(f"#train #{name}").display
            for name in ("pause", "stop", "detach", "keep")
        }
        assert shown == {"pause": False, "stop": False, "detach": True, "keep": False}
        screen.action_go("queries")
        await until(
            pilot,
            lambda: isinstance(screen.pane, QueriesPane),
            "the step",
        )
        assert not any(screen.pane.query_one(f"#{name}").display for name in ("pause", "stop"))
        for label in ("result", "search"):
            screen.action_go(label)
            await until(pilot, lambda label=label: screen.is_at(label), label)  # type: ignore[misc]
            button = screen.query_one(f"#{label} #primary", SafeButton)
            assert button.display == (label == "result")
        screen.status = replace(screen.status, stages=())
        screen.draw_run()
        screen.action_go("result")
        await until(
            pilot,
            lambda: screen.is_at("result"),
            "the step",
        )
        assert str(screen.query_one("#result #primary", SafeButton).label) == "Running …"

    drive(story)


def test_hours_of_a_teacher_are_seen_before_the_first_training_too(
    new_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = asyncio.Event()

    async def estimate(*_arguments: str) -> Any:
        await measured.wait()
        teacher = TeacherCost("ettin", 8500, 0.5)
        return to_json(AdaptationOffer({}, (), "document", 1, 2, 4.0, 2, teacher=teacher))

    monkeypatch.setattr("bmembed_tui.steps.train.pane.run_command", estimate)
    folder = ProjectFolder.open(new_project)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "train")
        await pilot.press("t")
        await until_text(pilot, MEASURING)
        measured.set()
        change = screen.query_one("#train-change", ChangeLine)
        await until(
            pilot,
            lambda: change.has_class("-asking"),
            "the hours",
        )
        assert "5 hours" in str(change.query_one(".change-effect", SafeStatic).render())
        assert folder.settings().training.teacher is None
        await pilot.press("enter")
        await until(
            pilot, lambda: folder.settings().training.teacher == "cross-encoder", "the teacher"
        )

    drive(
        story,
        new_project,
        (80, 24),
        step="train",
    )


def test_a_key_makes_the_reranker_teach_once_its_hours_were_seen(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teachers: list[TeacherCost | None] = [None, TeacherCost("ettin", 8500, 0.5)]
    asked: list[tuple[str, ...]] = []

    async def estimate(*arguments: str) -> Any:
        asked.append(arguments)
        offer = AdaptationOffer(
            {},
            (),
            "document",
            1,
            2,
            4.0,
            2,
            teacher=teachers.pop(0),
        )
        return to_json(offer)

    monkeypatch.setattr("bmembed_tui.steps.train.pane.run_command", estimate)
    folder = ProjectFolder.open(finished_project)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "train")
        await until_text(pilot, "┏")
        said = notifications(pilot.app)
        await pilot.press("t")
        await until(
            pilot,
            lambda: NO_RERANKER in said,
            "that there is none",
        )
        await pilot.press("t")
        change = screen.query_one("#train-change", ChangeLine)
        await until(
            pilot,
            lambda: change.has_class("-asking"),
            "what it makes stale",
        )
        effect = str(change.query_one(".change-effect", SafeStatic).render())
        assert all(part in effect for part in ("ettin", "8,500", "5 hours", "Train"))
        assert folder.settings().training.teacher is None
        await pilot.press("enter")
        await until(
            pilot, lambda: folder.settings().training.teacher == "cross-encoder", "the teacher"
        )
        assert folder.settings().training.cross_encoder == "ettin"
        # The way back makes nothing stale, so it is not asked about.
        await pilot.press("t")
        await until(
            pilot,
            lambda: folder.settings().training.teacher is None,
            "no teacher",
        )

    drive(
        story,
        finished_project,
        (80, 24),
        step="train",
    )
    assert [arguments[0] for arguments in asked] == ["adapt", "adapt"]
