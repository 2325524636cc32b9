"""What is typed while a project is being opened, and what its top line says then; over recorded
answers of the engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, screen_text, until, until_screen
from fixtures.pictures import NEW, PROJECT, RecordedProject, play_record
from textual.events import Key
from textual.pilot import Pilot

from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.search.pane import SearchPane


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    play_record(monkeypatch, tmp_path)


@pytest.mark.parametrize(("project", "step"), [(PROJECT, None), (NEW, "documents")])
def test_what_is_typed_while_a_project_opens_stands_in_the_search_field(
    project: Path, step: str | None
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.open_project(RecordedProject(project), step)  # type: ignore[attr-defined]
        for key in ("q", "backspace", "r"):
            pilot.app.post_message(Key(key, key if key.isalpha() and len(key) == 1 else None))
        screen = await until_screen(pilot, ProjectScreen)
        await until(
            pilot,
            lambda: isinstance(screen.pane, SearchPane) and screen.pane.question.query == "r",
            "it",
        )

    drive(story)


def test_the_widgets_of_a_step_are_made_when_it_is_first_shown() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.open_project(RecordedProject(PROJECT), "search")  # type: ignore[attr-defined]
        screen = await until_screen(pilot, ProjectScreen)
        await until(
            pilot,
            lambda: screen.is_at("search"),
            "the step",
        )
        assert [pane.step for pane in screen.query(StepPane)] == ["search"]
        searching = screen.pane
        await pilot.press("escape", "6")
        await until(
            pilot,
            lambda: screen.is_at("result"),
            "another step",
        )
        assert screen.pane.query("#changes").first().is_mounted  # type: ignore[union-attr]
        await pilot.press("escape", "7")
        await until(
            pilot,
            lambda: screen.pane is searching,
            "the first step as it was",
        )

    drive(story)


def test_a_project_without_a_run_is_open_once_its_status_is_known() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.open_project(RecordedProject(NEW), "search")  # type: ignore[attr-defined]
        screen = await until_screen(pilot, ProjectScreen)
        await until(
            pilot,
            lambda: screen.pane is not None,
            "the step",
        )
        assert screen_text(pilot.app).splitlines()[0].split() == [NEW.name]  # type: ignore[arg-type]

    drive(story)
