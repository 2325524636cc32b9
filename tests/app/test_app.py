"""What belongs to the whole app: help, palette, jump mode, key map, diagnostics, faults."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures
from fixtures.app import (
    drive,
    notifications,
    opened,
    screen_strips,
    screen_text,
    text_of,
    until,
    until_screen,
    until_text,
)
from fixtures.project_files import mode
from fixtures.user_folders import STATE
from rich.style import Style
from textual.command import CommandPalette
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList, TextArea

from bmembed_tui import faults
from bmembed_tui.app import BmembedApp
from bmembed_tui.client.in_app import COMMAND_KEYS, WAIT_FOR_RUN, add_app_keys, format_advice
from bmembed_tui.client.run_state import RunState
from bmembed_tui.dialogs.confirmations import ErrorDialog, QuestionDialog
from bmembed_tui.dialogs.diagnostics import DiagnosticsScreen
from bmembed_tui.dialogs.help import HelpDialog
from bmembed_tui.dialogs.jump import JumpScreen, make_labels
from bmembed_tui.home.new_project import NewProjectScreen
from bmembed_tui.home.screen import HomeScreen
from bmembed_tui.palette import Commands
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.settings.screen import SettingsScreen
from bmembed_tui.steps.search.pane import SearchPane
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.key_line import KeyLine
from engine.core.errors import DamagedError, NotBuiltError, ProjectBusyError, SettingsError
from engine.core.events import Paused, RunFinished, RunStarted, StageStarted
from engine.core.messages.wire import to_json
from engine.doctor.doctor import examine
from engine.project.folder import ProjectFolder

DOCUMENT_LINE = "a line of a document"


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_help_names_the_keys_that_work_here(size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("f1")
        await until_screen(pilot, HelpDialog)
        keys = text_of(pilot, "#help-keys")
        assert all(
            name in keys for name in ("new project", "F12", "Ctrl+Q")
        )  # of this screen, and of the app
        await pilot.press("end")  # at 80x24 the keys are below
        await until_text(pilot, "Ctrl+Q")
        await pilot.press("escape")
        await until_screen(pilot, HomeScreen)

    drive(story, size=size)


def test_a_key_of_what_a_dialog_covers_is_not_dead_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        screen.go("search")
        await until(
            pilot, lambda: screen.is_at("search") and screen.query_one(SearchPane).mode, "the step"
        )
        pane = screen.query_one(SearchPane)
        await pilot.press("f8")
        for key, covering in (
            ("f1", HelpDialog),
            ("ctrl+s", SettingsScreen),
            ("ctrl+p", CommandPalette),
        ):
            await pilot.press(key)
            await until_screen(pilot, covering)
            notices = notifications(pilot.app)
            await pilot.press("f7", "ctrl+r")
            assert [notice.partition(" ")[0] for notice in notices] == ["F7", "Ctrl+R"]
            await pilot.press(
                "f11", "down", "tab"
            )  # which mean nothing anywhere, or something here
            assert (len(notices), pane.mode) == (2, "all")
            await pilot.press("escape")
            await until(
                pilot,
                lambda: pilot.app.screen is screen,
                "the step again",
            )
        await pilot.press("escape", "f7")
        assert (len(notices), pane.mode) == (2, "bm25")

    drive(story)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_help_is_closed_by_the_mouse_alone(size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        for place in (None, (0, 0)):
            await pilot.press("f1")
            await until(pilot, lambda: isinstance(pilot.app.screen, HelpDialog))
            await pilot.click(".dialog-title")
            await pilot.click(".dialog-body")
            assert isinstance(pilot.app.screen, HelpDialog)
            await (pilot.click("#close") if place is None else pilot.click(offset=place))
            await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))

    drive(story, size=size)


def test_what_is_typed_while_a_dialog_opens_stands_in_its_field() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await until(
            pilot,
            lambda: pilot.app.screen.focused is not None,
            "the first screen",
        )
        for key in "o/tmp/oan":  # o opens the dialog; as fast as the terminal sends it
            pilot.app.post_message(Key(key, key))
        await until(
            pilot,
            lambda: [field.value for field in pilot.app.screen.query(PathField)] == ["/tmp/oan"],
            "it",
        )

    drive(story)


def test_jump_mode_takes_clicks() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await until_screen(pilot, NewProjectScreen)
        wanted = pilot.app.screen.query_one("#new-name")
        for right, focused in ((20, False), (0, True)):
            await pilot.press("ctrl+o")
            await until(pilot, lambda: isinstance(pilot.app.screen, JumpScreen))
            await pilot.click(offset=(wanted.region.x + right, wanted.region.y))
            await until(pilot, lambda: not isinstance(pilot.app.screen, JumpScreen))
            await until(pilot, lambda focused=focused: wanted.has_focus is focused, "the focus")  # type: ignore[misc]

    drive(story)


Call = tuple[str, ...]


def actions_of(screen: Screen[Any]) -> set[Call]:
    """What the commands of the palette would do: the method's name and its arguments."""
    calls = (offer.call for offer in Commands(screen).list_offers())
    return {
        (one.func.__name__, *one.args) if isinstance(one, partial) else (one.__name__,)
        for one in calls
    }


def test_the_palette_offers_only_what_is_valid_now(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> tuple[set[Call], set[Call]]:
        app = pilot.app
        home = actions_of(app.screen)
        await pilot.press("ctrl+p")
        await until_screen(pilot, CommandPalette)
        await pilot.press("escape")
        app.open_project(ProjectFolder(finished_project))  # type: ignore[attr-defined]
        screen = await opened(pilot)
        await until(pilot, lambda: screen.status.stages)
        return home, actions_of(screen)

    home, project = drive(story)
    assert not {("action_run_all",), ("action_go", "train")} & home
    assert {("action_run_all",), ("action_go", "train")} <= project
    assert not {name for name, *_ in project} & {"control"}


def test_the_palette_offers_to_pause_only_a_run_that_goes_on(new_project: Path) -> None:
    def offered(screen: ProjectScreen) -> set[Call]:
        return {call for call in actions_of(screen) if call[0] in ("action_run_all", "control")}

    run = ("action_run_all",)
    pause = ("control", "pause")
    resume = ("control", "resume")
    stop = ("control", "cancel")

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        assert offered(screen) == {run}
        screen.is_starting = True
        assert offered(screen) == set()
        screen.is_starting = False
        screen.run_state = RunState()
        screen.run_state.apply_all(
            [
                RunStarted(run="r", stages=["ingest"]),
                StageStarted(stage="ingest", fingerprint="f", reason="r"),
            ]
        )
        assert offered(screen) == {pause, stop}
        screen.run_state.apply(Paused(stage="ingest"))
        assert offered(screen) == {resume, stop}
        screen.run_state.apply(RunFinished(run="r", state="done", seconds=1.0))
        screen.status = replace(screen.status, running=True)  # read before the run ended
        assert offered(screen) == {run}

    drive(story, new_project)


def last_line(pilot: Pilot[Any]) -> str:
    return screen_text(pilot.app).splitlines()[-1]  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_the_last_line_leaves_keys_out_instead_of_cutting_one(
    new_project: Path, width: int
) -> None:
    async def story(pilot: Pilot[Any]) -> str:
        await opened(pilot, "documents")
        await until(
            pilot, lambda: "? help" in last_line(pilot) and last_line(pilot).endswith("^p palette")
        )
        return last_line(pilot)

    line = drive(
        story,
        new_project,
        (width, 24),
    )
    keys = [
        "a add a folder",
        "? help",
        "^r run all",
        "esc steps",
        "^q quit",
        "^s settings",
        "^w projects",
    ]
    shown = [key for key in keys if key in line]
    kept = {"? help", "^q quit"}
    others, offered = ([key for key in those if key not in kept] for those in (keys, shown))
    assert kept <= set(shown)
    assert offered == others[: len(offered)]  # the most wanted first
    assert len(shown) == {30: 2, 60: 4, 80: 5, 200: 7}[width]
    assert line.endswith("^p palette")
    assert line.split("▏")[0].strip() == "  ".join(shown)


def test_a_click_on_a_key_of_the_last_line_presses_it(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(pilot, "documents")
        await until(
            pilot,
            lambda: "? help" in last_line(pilot),
            "the key",
        )
        await pilot.click(KeyLine, offset=(last_line(pilot).index("? help"), 0))
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, HelpDialog),
            "the help",
        )

    drive(story, new_project)


def test_without_colours_the_chosen_line_is_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def look(pilot: Pilot[Any], text: str) -> tuple[Style, int]:
        strips = screen_strips(pilot.app)  # type: ignore[arg-type]
        style = next(one.style for strip in strips for one in strip if text in one.text)
        assert style is not None
        assert style.bgcolor is not None
        return style, style.bgcolor.get_truecolor().red  # of a grey

    async def story(pilot: Pilot[Any]) -> None:
        choices = pilot.app.screen.query_one("#home-choices", OptionList)
        await until(
            pilot,
            lambda: choices.option_count and choices.highlighted == 0,
            "the choices",
        )
        first, second = (
            str(option.prompt).strip().partition("  ")[0] for option in choices.options[:2]
        )
        await until_text(pilot, first)
        chosen, light = look(pilot, first)
        other, dark = look(pilot, second)
        assert light - dark > 128
        assert chosen.underline
        assert not other.underline

    drive(story)


def test_commands_that_help_are_followed_by_what_does_the_same_in_the_app() -> None:
    def ways(text: str, shown: str) -> list[str]:
        """Commands whose way in the app follows a text, in order."""
        assert shown.startswith(text)
        places = {
            name: shown.find(way)
            for name, way in COMMAND_KEYS.items()
            if way in shown.removeprefix(text)
        }
        return sorted(places, key=places.__getitem__)

    damaged = DamagedError(
        "Broken.",
        "",
        "Mend it.",
        stage="index",
        command="run",
    )
    assert set(ways("Mend it.", format_advice(damaged))) == {
        "run",
        "embed",
        "index",
        "rank",
    }  # two ways for four
    busy = ProjectBusyError(
        "Busy.",
        "",
        "Wait.",
        command="status",
    )
    assert ways("Wait.", format_advice(busy)) == ["status"]
    assert (
        format_advice(DamagedError("Broken.", "", "Mend it.", command="evaluate --force"))
        == "Mend it."
    )
    assert format_advice(DamagedError("Broken.", command="run")) == ""
    assert ways("2 are gone.", add_app_keys("2 are gone.", ["ingest"])) == ["ingest"]
    being_built = NotBuiltError(
        "No index yet.",
        "",
        "Try again later.",
        command="status",
    )
    assert format_advice(being_built) == WAIT_FOR_RUN


def test_jump_mode_goes_to_what_was_named(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: type(pilot.app.screen).__name__ == "JumpScreen")
        targets = pilot.app.screen.targets  # type: ignore[attr-defined]
        label, wanted = next(
            (label, widget) for label, widget in targets.items() if widget.id == "sidebar"
        )
        await pilot.press(label)
        await until(pilot, lambda: pilot.app.screen is screen and screen.focused is wanted)

    drive(story, new_project)


def test_the_chosen_theme_is_there_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE, str(tmp_path))
    monkeypatch.setenv("COLORFGBG", "15;0")

    async def story(pilot: Pilot[Any]) -> tuple[str, str]:
        before = pilot.app.theme
        await pilot.press("f1", "ctrl+t")  # over a dialog, too
        return before, pilot.app.theme

    assert drive(story) == ("bmembed-dark", "bmembed-light")
    assert drive(story) == ("bmembed-light", "bmembed-dark")
    (tmp_path / "bmembed" / "theme").write_bytes(b"\xff[/")
    assert drive(story)[0] == "bmembed-dark"


def test_quitting_while_a_run_goes_on_is_confirmed(
    new_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        monkeypatch.setattr(ProjectScreen, "is_busy", True)
        await pilot.press("ctrl+q")
        await until_screen(pilot, QuestionDialog)
        await pilot.press("escape")
        await until_screen(pilot, ProjectScreen)
        assert pilot.app.return_code is None
        await pilot.press("ctrl+q")
        await until_screen(pilot, QuestionDialog)
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.return_code is not None)

    drive(story, new_project)


def test_labels_are_never_the_beginning_of_another() -> None:
    for count in (0, 1, 26, 27, 400):
        made = make_labels(count)
        assert len(set(made)) == count
        assert not any(a != b and b.startswith(a) for a in made for b in made)


def test_diagnostics_hold_facts_and_no_document_text(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> tuple[str, str]:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history of the run",
        )
        await pilot.press("f12")
        await until_screen(pilot, DiagnosticsScreen)
        text = pilot.app.screen.query_one("#diagnostics")
        await until(pilot, lambda: "tantivy" in text.text, "the doctor's findings")  # type: ignore[attr-defined]
        await pilot.press("c")
        return text.text, pilot.app.clipboard  # type: ignore[attr-defined]

    shown, copied = drive(story, finished_project)
    assert copied == shown
    assert "textual 8" in shown
    assert "\n  train: done (" in shown
    for path in (finished_project / "documents").rglob("*.md"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 40]
        assert not any(line in shown for line in lines)


def test_diagnostics_list_a_problem_of_the_machine(
    new_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(tmp_path / "no" / "[model")
    ProjectFolder(new_project).change_settings({"encoder.model": model})

    async def command(
        _name: str,
        project: str,
        *_options: str,
        good: object,
    ) -> Any:
        return to_json(await asyncio.to_thread(examine, ProjectFolder(Path(project))))

    monkeypatch.setattr(
        "bmembed_tui.dialogs.diagnostics.run_command", command
    )  # a process would load torch

    def finding(text: str) -> list[str]:
        lines = (line for line in text.splitlines() if model in line)
        return [line for line in lines if line.split(":")[0].split() == ["problem", "model"]]

    async def story(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        await pilot.press("f12")
        text = (await until_screen(pilot, DiagnosticsScreen)).query_one("#diagnostics", TextArea)
        await until(
            pilot,
            lambda: finding(text.text),
            "the doctor's finding",
        )

    drive(story, new_project)


def test_a_second_palette_is_not_opened_over_one_that_another_screen_hides() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        app = pilot.app
        await pilot.press("ctrl+p")
        await until_screen(pilot, CommandPalette)
        await app.push_screen(ErrorDialog(SettingsError("An answer came late.")))
        await pilot.press("ctrl+p", "escape")
        await until_screen(pilot, CommandPalette)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))

    drive(story)


def test_what_no_terminal_could_be_sent_is_copied_without_a_fault() -> None:
    async def story(pilot: Pilot[Any]) -> str:
        pilot.app.copy_to_clipboard("/docs/odd\udcff\x1b.txt")
        return pilot.app.clipboard

    assert drive(story) == "/docs/odd?\x1b.txt"


def test_a_fault_is_recorded_in_private_and_reported_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE, str(tmp_path))

    class Faulty(BmembedApp):
        def on_mount(self) -> None:
            raise KeyError(DOCUMENT_LINE)

    Faulty().run(headless=True)
    (record,) = (tmp_path / "bmembed").glob("fault-*.txt")
    assert mode(record) == 0o600
    assert "KeyError" in record.read_text()
    assert "on_mount" in record.read_text()
    assert DOCUMENT_LINE not in record.read_text()
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert DOCUMENT_LINE not in printed
    assert record.name in printed.replace("\n", "")


def test_a_record_that_cannot_be_written_is_no_second_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(STATE, str(tmp_path / "file"))
    assert faults.write_record(ValueError("x")) is None
    assert faults.report_fault(ValueError("x"))
    assert os.path.isfile(tmp_path / "file")
