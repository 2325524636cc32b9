"""What goes on, and what ends, when a project or the app is left in the middle of something."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures import pictures
from fixtures.app import drive, opened, until, until_screen
from fixtures.fake_endpoint import Raw, serving
from fixtures.long_training import end_run, newest, state_of
from fixtures.pipeline import engine_here
from fixtures.scripted import ScriptedClient
from fixtures.waiting_run import waiting_run
from textual.pilot import Pilot

from bmembed_tui.app import BmembedApp
from bmembed_tui.dialogs.confirmations import ErrorDialog, QuestionDialog
from bmembed_tui.home.screen import HomeScreen
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import PatternField
from engine.core.errors import EngineError, StageError
from engine.project.folder import ProjectFolder


def own_processes(word: str, project: Path) -> list[list[str]]:
    """Command lines of this process's children that hold `word` and are about the project."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            line = child.cmdline()
        except psutil.Error:
            continue
        if word in line and str(project) in line:
            found.append(line)
    return found


def _leave(app: BmembedApp) -> None:
    app.screen.action_leave()  # type: ignore[attr-defined]


def _quit(app: BmembedApp) -> None:
    app.exit()


@pytest.mark.parametrize("go", [_leave, _quit])
def test_a_run_that_was_requested_begins_though_the_user_leaves_at_once(
    new_project: Path, go: Callable[[BmembedApp], None]
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        screen.start_run(("ingest",))
        await pilot.pause(0)
        assert isinstance(pilot.app, BmembedApp)
        go(pilot.app)

    drive(story, new_project)
    assert state_of(new_project) in ("running", "done")
    end_run(new_project)


def test_a_stop_that_was_requested_comes_about_though_the_app_is_closed(
    finished_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.running,
            "the run",
        )
        screen.control("cancel")
        await pilot.pause(0)  # a key press later the app is closed

    with waiting_run(finished_project) as run:
        drive(story, finished_project)
        run.wait(60)
    assert state_of(finished_project) == "cancelled"


@pytest.mark.processes
def test_a_sample_ends_with_the_app(new_project: Path) -> None:
    engine_here(
        "run",
        str(new_project),
        "--only",
        "ingest,index",
    )
    with serving(lambda _request, _number: Raw(wait=threading.Event())) as endpoint:
        folder = ProjectFolder.open(new_project)
        folder.change_settings({"queries.backend": "endpoint", "queries.endpoint": endpoint.url})

        async def story(pilot: Pilot[Any]) -> None:
            screen = await opened(pilot)
            await until(pilot, lambda: screen.pane is not None)
            screen.action_go("queries")
            await until(
                pilot,
                lambda: screen.is_at("queries"),
                "the step",
            )
            backend = screen.query_one("#source-backend", ChoiceRow)
            await until(
                pilot,
                lambda: backend.value == "endpoint",
                "the backend",
            )
            await pilot.press("s")
            await until(
                pilot,
                lambda: endpoint.requests,
                "a request",
            )
            assert own_processes("sample", new_project)

        drive(story, new_project)
        gone = threading.Event()
        for _ in range(300):
            if not (own_processes("sample", new_project) or own_processes("serve", new_project)):
                break
            gone.wait(0.1)
        assert not own_processes("sample", new_project)
        assert not own_processes("serve", new_project)


def test_a_project_that_vanishes_is_reported_once(finished_project: Path) -> None:
    dialogs: list[EngineError] = []

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.run_state.over and screen.pane is not None)
        screen.show_error = lambda error: dialogs.append(error)  # type: ignore[method-assign]

        async def call(method: str, **_: Any) -> Any:
            raise StageError("Gone.", code="project-missing")

        screen.client.call = call  # type: ignore[method-assign]
        for _ in range(5):
            await screen.refresh_status()
        assert [error.code for error in dialogs] == ["project-missing"]
        assert not isinstance(pilot.app.screen, ErrorDialog)

    drive(story, finished_project)


@pytest.mark.posix(reason="an open database cannot be removed on Windows")
def test_a_folder_that_is_deleted_under_the_app_is_no_fault(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.run_state.over and screen.pane is not None)
        shutil.rmtree(finished_project)
        for step in ("documents", "queries", "train", "result", "search", "index", "model"):
            screen.action_go(step)
            await pilot.pause(0.1)
            await pilot.press("escape")
        screen.load()
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ErrorDialog),
            "the error",
        )
        await pilot.press("escape")
        assert pilot.app.is_running

    drive(story, finished_project)


def test_an_old_record_of_a_run_that_is_no_object_is_no_fault(finished_project: Path) -> None:
    newest_record = newest(finished_project) / "run.json"
    newest_record.write_text(json.dumps([1, 2]))

    async def story(pilot: Pilot[Any]) -> None:
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ProjectScreen),
            "the project",
        )
        await pilot.pause(0.5)
        assert pilot.app.is_running

    drive(story, finished_project)


@pytest.mark.parametrize(
    "moments",
    [
        ((0.0, 0.0), (0.0, 0.01), (0.005, 0.002), (0.03, 0.02), (0.03, 0.04)),
        pytest.param(
            tuple(product((0.0, 0.005, 0.03), (0.0, 0.002, 0.01, 0.02, 0.04))),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_search_may_be_left_as_soon_as_it_is_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: tuple[tuple[float, float], ...]
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    seconds = 0.0
    answer = ScriptedClient.call

    async def late(self: ScriptedClient, method: str, **params: Any) -> Any:
        await asyncio.sleep(seconds)
        return await answer(
            self,
            method,
            **params,
        )

    monkeypatch.setattr(ScriptedClient, "call", late)

    async def story(pilot: Pilot[Any]) -> None:
        nonlocal seconds
        app = pilot.app
        assert isinstance(app, BmembedApp)
        for late_by, stay in moments:
            seconds = late_by
            app.open_project(pictures.RecordedProject(pictures.PROJECT), "search")
            while not (isinstance(app.screen, ProjectScreen) and app.screen.pane):
                await asyncio.sleep(0.001)
            await asyncio.sleep(stay)
            app.screen.action_leave()
            await until(
                pilot,
                lambda: not isinstance(app.screen, ProjectScreen),
                "the way out",
            )
        await until_screen(pilot, HomeScreen)

    drive(story, size=(80, 24))


def test_leaving_with_patterns_that_are_not_kept_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.open_project(pictures.RecordedProject(pictures.PROJECT), "documents")  # type: ignore[attr-defined]
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.query("#exclude"),
            "the patterns",
        )
        screen.query_one("#exclude", PatternField).value = "drafts/"
        for keys in (("enter",), ("right", "enter")):
            await pilot.press("ctrl+w")
            await until_screen(pilot, QuestionDialog)
            await pilot.press(*keys)
            stays = len(keys) == 1
            await until(
                pilot,
                lambda stays=stays: isinstance(
                    pilot.app.screen, ProjectScreen if stays else HomeScreen
                ),
            )  # type: ignore[misc]
            assert screen.is_attached == stays

    drive(story)
