"""The settings screen: made from the engine's schema; says what a change makes stale before it is written."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, screen_text, until, until_text
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.settings.screen import SettingsScreen
from bmembed_tui.settings.text import fault_line, restored
from engine.core.errors import SettingsError
from engine.project.folder import ProjectFolder
from engine.settings.schema import Settings


class AloneScreen(SettingsScreen):
    """Ends the server that the project's screen owns in the app."""

    async def on_unmount(self) -> None:
        await self._client.close()


async def opened(pilot: Pilot[Any], project: Path) -> SettingsScreen:
    screen = AloneScreen(EngineClient(project), ProjectFolder(project))
    pilot.app.push_screen(screen)
    await until_text(pilot, "corpus.chunk_tokens")
    return screen


async def find(pilot: Pilot[Any], name: str) -> None:
    pilot.app.screen.query_one("#find", Input).value = name
    await pilot.pause()
    pilot.app.screen.query_one("#setting-list").focus()
    await until(pilot, lambda: pilot.app.screen.chosen and pilot.app.screen.chosen.name == name, name)  # type: ignore[attr-defined]


def test_every_setting_of_the_schema_is_there_with_its_help(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> SettingsScreen:
        return await opened(pilot, new_project)

    screen = drive(story)
    wanted = {f"{name}.{key}" for name, part in Settings.model_fields.items() for key in part.annotation.model_fields}  # type: ignore[union-attr]
    assert screen.settings.keys() == wanted
    assert all(setting.key.help for setting in screen.settings.values())


def test_a_change_says_what_it_makes_stale_and_is_written_on_apply(finished_project: Path) -> None:
    before = (finished_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        await opened(pilot, finished_project)
        await find(pilot, "training.learning_rate")
        await pilot.press("enter")
        pilot.app.screen.query_one("#setting-value", Input).value = "0.002"
        await pilot.press("enter")
        await until_text(pilot, "Makes stale: train")
        assert (finished_project / "project.toml").read_text() == before
        assert "ingest (" not in screen_text(pilot.app)  # type: ignore[arg-type]
        await pilot.press("ctrl+s")
        await until_text(pilot, "Written to project.toml")

    drive(story)
    assert tomllib.loads((finished_project / "project.toml").read_text())["training"]["learning_rate"] == 0.002


def test_a_choice_is_picked_and_can_be_discarded(new_project: Path) -> None:
    before = (new_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await find(pilot, "corpus.context")
        await pilot.press("enter")
        await until_text(pilot, "headings")
        await pilot.press("right", "enter")
        await until(pilot, lambda: screen.changes == {"corpus.context": "headings"})
        await pilot.press("ctrl+z")
        await until(pilot, lambda: not screen.changes)
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is not screen)

    drive(story)
    assert (new_project / "project.toml").read_text() == before


@pytest.mark.parametrize(
    ("name", "value", "told"), [("corpus.chunk_tokens", "3", "16"), ("ranking.k", "many", "ranking.k")]
)
def test_a_wrong_value_is_told_and_cannot_be_applied(new_project: Path, name: str, value: str, told: str) -> None:
    before = (new_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await find(pilot, name)
        await pilot.press("enter")
        screen.query_one("#setting-value", Input).value = value
        await pilot.press("enter")
        await until_text(pilot, "✗")
        assert told in screen_text(pilot.app)  # type: ignore[arg-type]
        assert screen.query_one("#apply").disabled
        await pilot.press("ctrl+s")
        await pilot.pause(0.3)
        await pilot.press("escape", "escape")

    drive(story)
    assert (new_project / "project.toml").read_text() == before


def test_letters_typed_on_the_list_find_a_setting(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        screen.query_one("#setting-list").focus()
        await pilot.press(*"retrain")
        await until(pilot, lambda: screen.query_one("#find", Input).value == "retrain")
        await until_text(pilot, "corpus.retrain_threshold")
        assert "vectors.dtype" not in screen_text(pilot.app)  # type: ignore[arg-type]

    drive(story)


def test_leaving_with_changes_asks_first(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await find(pilot, "vectors.dtype")
        await pilot.press("enter", "right", "enter")
        await until(pilot, lambda: screen.changes)
        await pilot.press("escape")
        await until_text(pilot, "Leave without applying?")
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("escape")
        await until_text(pilot, "Leave without applying?")
        await pilot.press("right", "enter")
        await until_text(pilot, "Try the sample")

    drive(story)


def test_an_edit_by_hand_meanwhile_is_kept(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        path = new_project / "project.toml"
        path.write_text(path.read_text() + "\n# a note of my own\n")
        await find(pilot, "search.top")
        await pilot.press("enter")
        screen.query_one("#setting-value", Input).value = "7"
        await pilot.press("enter")
        await until(pilot, lambda: not screen.query_one("#apply").disabled)
        await pilot.press("ctrl+s")
        await until_text(pilot, "Written to project.toml")

    drive(story)
    text = (new_project / "project.toml").read_text()
    assert "# a note of my own" in text
    assert tomllib.loads(text)["search"]["top"] == 7


class Slow(EngineClient):
    """Answers `what_if` when it is let."""

    let: asyncio.Event

    async def call(self, method: str, **params: Any) -> Any:
        if method == "what_if":
            await self.let.wait()
        return await super().call(method, **params)


def test_nothing_is_written_before_it_is_shown_what_becomes_stale(finished_project: Path) -> None:
    before = (finished_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        desk = Slow(finished_project)
        desk.let = asyncio.Event()
        screen = SettingsScreen(desk, ProjectFolder(finished_project))
        pilot.app.push_screen(screen)
        await until_text(pilot, "corpus.chunk_tokens")
        await find(pilot, "training.learning_rate")
        await pilot.press("enter")
        screen.query_one("#setting-value", Input).value = "0.002"
        await pilot.press("enter", "ctrl+s")
        assert screen.query_one("#apply").disabled
        await desk.call("ping")  # whatever was asked before has been answered
        assert (finished_project / "project.toml").read_text() == before
        desk.let.set()
        await until_text(pilot, "Makes stale: train")
        await pilot.press("ctrl+s")
        await until_text(pilot, "Written to project.toml")

    drive(story)


def test_enter_on_a_value_that_was_not_changed_changes_nothing(new_project: Path) -> None:
    ProjectFolder(new_project).change_settings({"encoder.model": "a\u202eb\tc"})

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await find(pilot, "encoder.model")
        await pilot.press("enter")
        assert screen.query_one("#setting-value", Input).value == "a\ufffdb c"
        await pilot.press("enter")
        assert not screen.changes

    drive(story)


async def typed(pilot: Pilot[Any], value: str) -> None:
    await find(pilot, "training.learning_rate")
    await pilot.press("enter")
    pilot.app.screen.query_one("#setting-value", Input).value = value


def test_what_is_typed_is_applied_once_it_was_seen_what_becomes_stale(finished_project: Path) -> None:
    before = (finished_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, finished_project)
        await typed(pilot, "0.002")
        await pilot.press("ctrl+z")  # means nothing in a field
        await pilot.press("ctrl+s")
        await until(pilot, lambda: pilot.app.focused is screen.query_one("#apply"), "the focus on Apply")
        await until_text(pilot, "Makes stale: train")
        assert (finished_project / "project.toml").read_text() == before
        await pilot.press("enter")
        await until_text(pilot, "Written to project.toml")

    drive(story)
    assert tomllib.loads((finished_project / "project.toml").read_text())["training"]["learning_rate"] == 0.002


def test_apply_waits_where_nothing_becomes_stale(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(pilot, new_project)
        await typed(pilot, "0.002")
        await pilot.press("ctrl+s")
        await until_text(pilot, "Written to project.toml")

    drive(story)
    assert tomllib.loads((new_project / "project.toml").read_text())["training"]["learning_rate"] == 0.002


def test_what_is_typed_is_a_change_when_the_field_is_left(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await typed(pilot, "0.002")
        await pilot.press("tab")
        await until(pilot, lambda: screen.changes == {"training.learning_rate": 0.002}, "the change")
        screen.query_one("#close").focus()
        await pilot.press("enter")
        await until_text(pilot, "Leave without applying?")

    drive(story)


async def until_words(pilot: Pilot[Any], words: str) -> None:
    """Wait for words that may be broken at the end of a line: how long a path is depends on where tests run."""
    await until(pilot, lambda: words in " ".join(screen_text(pilot.app).split()), words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "key", "at", "line"),
    [
        ("[corpus]\npaths = [\n[x]\n", "", 2, 1),
        ("[corpus]\n", "", 9, 1),
        ("# a\n[corpus]\npath = []\n", "corpus.path", 0, 2),
        ("[training]\nside = 1\nsteps = -5\n", "training.steps", 0, 2),
        ("a = 1\n[trainin]\nsteps = 5\n", "trainin", 0, 1),
        ("a = 1\n", "corpus.paths.0", 0, 0),
    ],
)
def test_the_line_of_a_fault_is_found(text: str, key: str, at: int, line: int) -> None:
    assert fault_line(text, SettingsError("").at(key=key, line=at)) == line


@pytest.mark.parametrize(
    ("before", "edited", "written"),
    [
        ("a = 1\r\nb = 2\r\n", "a = 1\nb = 3\n", "a = 1\r\nb = 3\r\n"),
        ("# a\rb = 2\r", "# a\nb = 3\n", "# a\rb = 3\r"),
        ('p = "/x/\u200ey"\nb = 2', 'p = "/x/\ufffdy"\nb = 3', 'p = "/x/\u200ey"\nb = 3'),
        ('p = "\u2028"\nb = 2', 'p = "\ufffd"\nb = 3', 'p = "\u2028"\nb = 3'),
        ("# \x1b\nb = 2", "# gone\nb = 2", "# gone\nb = 2"),
        ("", "a = 1\n", "a = 1\n"),
    ],
)
def test_what_was_not_touched_is_written_as_it_was(before: str, edited: str, written: str) -> None:
    assert restored(before, edited) == written


def test_a_project_toml_that_is_not_valid_can_be_mended(new_project: Path) -> None:
    file = new_project / "project.toml"
    broken = "[training]\n# [red]mine[/] \x1b]0;x\nsteps = ten\n"

    async def story(pilot: Pilot[Any]) -> SettingsScreen:
        screen = AloneScreen(EngineClient(new_project), ProjectFolder(new_project))
        file.write_text(broken)
        pilot.app.push_screen(screen)
        await until_words(pilot, "is not valid TOML")
        area = pilot.app.screen.query_one(TextArea)
        await until(pilot, lambda: area.text.endswith("steps = ten\n"), "the text")
        assert area.cursor_location[0] == 1  # a control character is no TOML
        assert "[red]mine[/]" in screen_text(pilot.app)  # type: ignore[arg-type]
        area.text = "[training]\nstep = 10\n"
        await pilot.press("ctrl+s")
        await until_words(pilot, "Did you mean 'training.steps'?")
        assert area.cursor_location[0] == 1
        assert file.read_text() == broken
        area.text = "[training]\nsteps = 10\n"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: bool(screen.settings), "the settings, one by one")
        return screen

    assert drive(story).values["training.steps"] == 10
    assert tomllib.loads(file.read_text())["training"] == {"steps": 10}


def test_a_project_toml_that_is_not_mended_stays_and_the_settings_are_left(new_project: Path) -> None:
    file = new_project / "project.toml"

    async def story(pilot: Pilot[Any]) -> None:
        screen = AloneScreen(EngineClient(new_project), ProjectFolder(new_project))
        file.write_text("[corpus\n")
        pilot.app.push_screen(screen)
        await until_words(pilot, "is not valid TOML")
        area = pilot.app.screen.query_one(TextArea)
        await until(pilot, lambda: area.text == "[corpus\n", "the text")
        await pilot.press("x", "escape")
        await until_text(pilot, "Close without saving?")
        await pilot.press("enter")
        assert area.text == "x[corpus\n"
        await pilot.press("escape", "right", "enter")
        await until(pilot, lambda: not screen.is_attached, "the settings to be left")

    drive(story)
    assert file.read_text() == "[corpus\n"


def test_what_another_program_saved_while_project_toml_was_mended_stays(new_project: Path) -> None:
    file = new_project / "project.toml"
    sound = file.read_text()

    async def story(pilot: Pilot[Any]) -> None:
        file.write_text("[corpus\n")
        pilot.app.push_screen(AloneScreen(EngineClient(new_project), ProjectFolder(new_project)))
        await until_words(pilot, "is not valid TOML")
        area = pilot.app.screen.query_one(TextArea)
        await until(pilot, lambda: area.text == "[corpus\n", "the text")
        file.write_text("# by hand\n" + sound)
        area.text = sound
        await pilot.press("ctrl+s")
        await until_words(pilot, "has changed meanwhile")

    drive(story)
    assert file.read_text() == "# by hand\n" + sound
