"""Export and removal from within the app, done by the real engine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.app import drive, notifications, opened, screen_text, until, until_screen, until_text
from fixtures.user_folders import HOME
from textual.pilot import Pilot
from textual.widgets import OptionList

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.dialogs import export
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.home.recents import list_recent_projects, remember
from bmembed_tui.home.removal import RemovalScreen
from bmembed_tui.home.screen import HomeScreen
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.errors import EngineError
from engine.core.messages.project import Exported, ExportNote, Purged
from engine.core.messages.wire import to_json
from engine.export.kinds import ALL, DEFAULT, KINDS
from engine.export.take import export_project
from engine.project.folder import ProjectFolder


@pytest.fixture(autouse=True)
def own_home(
    own_folders: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))


@pytest.fixture
def exported_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual parts are written in this process: to write a model loads it."""

    async def command(
        _name: str,
        project: str,
        folder: str,
        *_options: str,
    ) -> Any:
        return to_json(
            await asyncio.to_thread(export_project, ProjectFolder(Path(project)), Path(folder))
        )

    monkeypatch.setattr(export, "run_command", command)


async def _export_dialog(pilot: Pilot[Any]) -> export.ExportScreen:
    await opened(pilot, "result")
    await until(
        pilot,
        lambda: not pilot.app.screen.query_one("#export").disabled,
        "the report",
    )
    pilot.app.screen.query_one("#export").focus()
    await pilot.press("enter")
    return await until_screen(pilot, export.ExportScreen)


def code(screen: export.ExportScreen | RemovalScreen) -> str:
    if isinstance(screen.outcome, EngineError):
        return screen.outcome.code
    return ""


def _shown(pilot: Pilot[Any]) -> str:
    """What the dialog shows, without white space: a long path is broken anywhere."""
    lines = screen_text(pilot.app).splitlines()  # type: ignore[arg-type]
    return "".join("".join(line.split("│")[1].split()) for line in lines if line.count("│") > 1)


def test_the_parts_are_those_of_the_engine() -> None:
    assert tuple(export.PARTS) == ALL
    assert export.USUAL == DEFAULT
    assert tuple(name for name, kind in KINDS.items() if kind.holds_text) == export.WITH_TEXT


@pytest.mark.usefixtures("exported_here")
def test_the_usual_parts_are_exported_by_enter_alone(
    finished_project: Path, tmp_path: Path
) -> None:
    async def story(pilot: Pilot[Any]) -> str:
        screen = await _export_dialog(pilot)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: screen.outcome,
            "what was exported",
        )
        shown = _shown(pilot)
        await pilot.press("enter")
        await until_screen(pilot, ProjectScreen)
        assert isinstance(screen.outcome, Exported)
        assert screen.outcome.with_text == ()
        return shown

    shown = drive(
        story,
        finished_project,
        step="result",
    )
    made = tmp_path / "handbook-encoder"
    assert (made / "README.md").is_file()
    assert json.loads((made / "manifest.json").read_text())["kinds"] == ["adapter", "model"]
    assert f"✓{made}:" in shown


@pytest.mark.parametrize("lines", [3, 60])
def test_all_that_is_said_of_an_export_can_be_read(
    finished_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    note = ExportNote(
        "model-base",
        "\n".join(f"line {n}" for n in range(lines)),
        "the end",
    )
    exported = Exported(
        tmp_path / "taken",
        ("model",),
        (),
        1,
        1,
        notes=(note,),
    )

    async def command(*_: str) -> Any:
        return to_json(exported)

    monkeypatch.setattr(export, "run_command", command)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await _export_dialog(pilot)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: screen.outcome,
            "what was exported",
        )
        await until(
            pilot,
            lambda: screen.query_one("#cancel").has_focus,
            "the way out",
        )
        await pilot.press("shift+tab", "end")
        await until_text(pilot, "the end")

    drive(
        story,
        finished_project,
        size=(80, 24),
        step="result",
    )


def test_other_parts_are_chosen_and_those_that_hold_text_are_listed(
    finished_project: Path, tmp_path: Path
) -> None:
    async def story(pilot: Pilot[Any]) -> Any:
        screen = await _export_dialog(pilot)
        screen.query_one("#export-folder", PathField).value = str(tmp_path / "taken")
        parts = screen.query_one("#export-parts", SafeOptions)
        parts.focus()
        await pilot.press(
            "home", "space", "down", "enter", "end", "up", "space"
        )  # no adapter, no model, but chunks
        screen.query_one("#export").focus()
        await pilot.press("enter")
        await until(
            pilot,
            lambda: screen.outcome,
            "what was exported",
        )
        return screen.outcome

    outcome = drive(
        story,
        finished_project,
        step="result",
    )
    assert isinstance(outcome, Exported)
    assert outcome.with_text == ("chunks",)
    assert json.loads((tmp_path / "taken" / "manifest.json").read_text())["kinds"] == ["chunks"]


@pytest.mark.usefixtures("exported_here")
def test_what_the_engine_refuses_can_be_put_right(finished_project: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "own.txt").write_text("mine")

    async def story(pilot: Pilot[Any]) -> None:
        screen = await _export_dialog(pilot)
        field = screen.query_one("#export-folder", PathField)
        button = screen.query_one("#export")
        field.value = str(tmp_path / "taken")
        await pilot.press("enter")
        await until(
            pilot,
            lambda: code(screen) == "target-exists",
            "the reason",
        )
        assert button.region in screen.query_one(".dialog").region
        field.value = ""
        await until(
            pilot, lambda: not button.has_class("-active"), "the button"
        )  # held down, it is not pressed
        await pilot.press("enter")
        await until(
            pilot,
            lambda: code(screen) == "export-incomplete-choice",
            "the reason",
        )
        field.value = str(tmp_path / "second")
        await until(
            pilot,
            lambda: not button.has_class("-active"),
            "the button",
        )
        await pilot.press("enter")
        await until(
            pilot,
            lambda: isinstance(screen.outcome, Exported),
            "what was exported",
        )
        assert screen.query_one("#cancel").region in screen.query_one(".dialog").region

    drive(
        story,
        finished_project,
        size=(80, 24),
        step="result",
    )
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["own.txt"]
    assert (tmp_path / "second" / "manifest.json").is_file()


def test_a_folder_is_offered_that_is_not_there_yet(tmp_path: Path) -> None:
    assert export.find_free_folder("handbook") == str(tmp_path / "handbook-encoder")
    (tmp_path / "handbook-encoder").mkdir()
    assert export.find_free_folder("handbook") == str(tmp_path / "handbook-encoder-2")


async def _ask_to_remove(pilot: Pilot[Any], answer: str) -> None:
    await until_screen(pilot, QuestionDialog)
    pilot.app.screen.query_one(f"#answer-{answer}").focus()
    await pilot.press("enter")


def test_a_project_is_removed_from_within_and_what_may_hold_text_is_listed(
    finished_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> Purged:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.status.stages,
            "the status",
        )
        screen.action_remove()
        await _ask_to_remove(pilot, "keep")
        await until(
            pilot,
            lambda: pilot.app.screen is screen,
            "the project",
        )
        assert (finished_project / "project.toml").exists()
        screen.action_remove()
        await _ask_to_remove(pilot, "remove")
        removal = await until_screen(pilot, RemovalScreen)
        await until(
            pilot,
            lambda: removal.outcome,
            "the outcome",
        )
        outcome = removal.outcome
        assert isinstance(outcome, Purged)
        await until_text(pilot, outcome.removed[0].what)
        await pilot.press("end")
        await until_text(pilot, outcome.elsewhere[-1].what)
        await pilot.press("escape")
        await until_screen(pilot, HomeScreen)
        await until(
            pilot,
            lambda: "handbook" not in screen_text(pilot.app),
            "the list without it",
        )
        return outcome

    documents = sorted(
        path for path in (finished_project / "documents").rglob("*") if path.is_file()
    )
    outcome = drive(
        story,
        finished_project,
        size=(120, 60),
        step="result",
    )
    assert sorted(path for path in finished_project.rglob("*") if path.is_file()) == documents
    assert outcome.kept == ("documents",)
    assert list_recent_projects() == []


def test_a_marked_project_is_removed_on_the_first_screen(finished_project: Path) -> None:
    remember(finished_project)

    async def story(pilot: Pilot[Any]) -> None:
        choices = pilot.app.screen.query_one("#home-choices", OptionList)
        await until(
            pilot,
            lambda: f"at:{finished_project}" in [one.id for one in choices.options],
            "the project",
        )
        notices = notifications(pilot.app)
        await pilot.press("home", "delete")  # on a choice that is no project
        await until(
            pilot,
            lambda: notices,
            "the hint",
        )
        assert isinstance(pilot.app.screen, HomeScreen)
        await pilot.press("end", "delete")
        await _ask_to_remove(pilot, "remove")
        removal = await until_screen(pilot, RemovalScreen)
        await until(
            pilot,
            lambda: isinstance(removal.outcome, Purged),
            "the outcome",
        )
        await pilot.press("escape")
        await until(
            pilot,
            lambda: "handbook" not in screen_text(pilot.app),
            "the list without it",
        )

    drive(story)
    assert sorted(path.name for path in finished_project.iterdir()) == ["documents"]


def test_while_a_run_holds_it_a_project_is_not_removed_and_goes_on_working(
    finished_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "result")
        screen.action_remove()
        with ProjectFolder(finished_project).locked():
            await _ask_to_remove(pilot, "remove")
            removal = await until_screen(pilot, RemovalScreen)
            await until(
                pilot,
                lambda: code(removal) == "project-busy",
                "the reason",
            )
        await pilot.press("escape")
        await until(
            pilot,
            lambda: pilot.app.screen is screen,
            "the project",
        )
        assert (await screen.client.call("status"))["name"] == "handbook"

    drive(story, finished_project, step="result")
    assert (finished_project / "project.toml").exists()


@pytest.mark.processes
def test_the_process_that_answers_is_started_again_after_its_end(finished_project: Path) -> None:
    async def story(_pilot: Pilot[Any]) -> tuple[int, int]:
        desk = EngineClient(finished_project)
        pids = []
        for _ in range(2):
            await desk.call("ping")
            pids.append(
                next(one.pid for one in psutil.Process().children() if "serve" in one.cmdline())
            )
            await desk.restart()
        await desk.close()
        return pids[0], pids[1]

    first, second = drive(story)
    assert first != second
