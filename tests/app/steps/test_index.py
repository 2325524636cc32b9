"""The Index step: facts and progress."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, opened, screen_text, text_of, until, until_text
from fixtures.shown_numbers import numbers
from textual.pilot import Pilot

from bmembed_tui.client.progress import format_bar
from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.steps.index.text import HEAD, format_status
from bmembed_tui.widgets.hanging import wrap_hanging
from engine.core.events import Choice, Progress, RunStarted, StageStarted
from engine.core.messages.project import ProjectStatus, StageState


def status(index: str = "done", rank: str = "done") -> ProjectStatus:
    stages = (
        StageState("index", index, "its settings changed"),
        StageState("rank", rank, "generate is stale"),
    )
    return ProjectStatus(counts={"chunks": 571, "queries": 295}, stages=stages)


def history() -> History:
    language = Choice(
        stage="index",
        setting="language",
        value="en",
        reason="98% of the [/ sample",
    )
    others = Choice(
        stage="index",
        setting="other languages",
        value="1 in pt",
        reason="stemmed apart, in a stemmer of its own",
    )
    index = StageRun(
        "index", seconds=1.25, choices={"language": language, "other languages": others}
    )
    rank = StageRun(
        "rank", seconds=0.4, summary={"queries": 298, "k": 50}, warnings=["look at this"]
    )
    return History({"index": index, "rank": rank})


def test_facts_of_index_and_rankings() -> None:
    shown = format_status(status(), RunState(), history()).plain.splitlines()
    assert numbers(shown[0]) == [571, 1.2]  # chunks, seconds
    for line, choice in zip(shown[1:3], history().stages["index"].choices.values(), strict=True):
        assert line.endswith(f" {choice.value}: {choice.reason}")
    assert numbers(shown[3]) == [298, 50, 0.4]  # lists, their depth, seconds
    assert shown[4].endswith("! look at this")


def test_rankings_of_no_queries_have_no_number() -> None:
    empty = StageRun(
        "rank",
        seconds=0.4,
        summary={"queries": 0, "k": 0},
    )
    shown = format_status(status(), RunState(), History({"rank": empty})).plain
    assert not any(char.isdigit() for char in shown.partition("Rankings")[2])


def test_rankings_to_do_ask_for_queries_only_if_the_project_has_none() -> None:
    there = status(rank="to do")
    gone = replace(status(rank="to do"), counts={"chunks": 571, "queries": 0})
    some, none = (
        format_status(one, RunState(), History()).plain.splitlines()[-1] for one in (there, gone)
    )
    assert none.startswith(some)
    assert len(none) > len(some)


def test_a_fact_that_is_too_long_for_a_row_goes_on_below_its_text() -> None:
    lines = format_status(status(), RunState(), history()).split("\n")
    rows = [row for line in lines for row in wrap_hanging(line, 40, HEAD).plain.split("\n")]
    place = next(number for number, row in enumerate(rows) if row.startswith("Rankings"))
    assert all(row.startswith(" " * HEAD) for row in rows[place + 1 : place + 3])
    assert [wrap_hanging(line, 16, HEAD).plain for line in lines] == [
        line.plain for line in lines
    ]  # too narrow for two columns


def test_without_records_the_counts_of_the_project_are_shown() -> None:
    shown = format_status(status("stale", "stale"), RunState(), History()).plain
    assert all(fact in shown for fact in ("571", "its settings changed", "295"))
    assert "571" not in format_status(status("to do", "to do"), RunState(), History()).plain
    assert "298" not in format_status(status("done", "to do"), RunState(), history()).plain


def test_progress() -> None:
    state = RunState()
    state.apply_all(
        [
            RunStarted(run="r", stages=["rank"]),
            StageStarted(stage="rank", fingerprint="f", reason="r"),
            Progress(stage="rank", done=1024, total=4096, unit="queries"),
        ]
    )
    shown = format_status(status("done", "to do"), state, history()).plain
    assert shown.startswith("▶ ")
    assert format_bar(0.25) in shown
    assert numbers(shown)[:2] == [1024, 4096]


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_what_was_built_is_shown_and_enter_goes_on(
    finished_project: Path, size: tuple[int, int]
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "index")
        await until_text(pilot, "en: ")
        await until(
            pilot,
            lambda: screen.status.done("index", "rank"),
            "the status",
        )
        assert screen.status.counts["queries"] in numbers(screen_text(pilot.app))  # type: ignore[arg-type]
        screen.pane.focus_primary()  # type: ignore[union-attr]
        await pilot.press("enter")
        await until(pilot, lambda: screen.pane is not None and screen.pane.step == "train")

    drive(
        story,
        finished_project,
        size,
        step="index",
    )


def test_index_and_rankings_are_built_from_the_step(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "index")
        await pilot.press("enter")
        # A quick run may be over before the first look: only its end is waited for.
        await until(
            pilot, lambda: screen.run_state.state == "done" and not screen.is_busy, "the run"
        )
        await until(pilot, lambda: screen.status.done("index", "rank"))
        queries = screen.status.counts["queries"]
        await until(
            pilot, lambda: queries in numbers(text_of(pilot, "#index-status")), "the rankings"
        )
        assert screen.pane is not None
        assert screen.pane.step == "index"
        assert set(screen.run_state.stages) == {"ingest", "index", "generate", "rank"}

    drive(story, new_project, step="index")
