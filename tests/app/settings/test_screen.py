"""The settings screen: made from the engine's schema; shows what a change makes stale before it
is written.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, screen_text, until, until_text
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.settings.screen import SettingsScreen
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.safe import SafeOptions
from engine.project.folder import ProjectFolder
from engine.settings.values import list_settings


class AloneScreen(SettingsScreen):
    """Ends the server that the project's screen owns in the app."""

    async def on_unmount(self) -> None:
        await self.client.close()


async def opened(pilot: Pilot[Any], project: Path) -> SettingsScreen:
    screen = AloneScreen(EngineClient(project), ProjectFolder(project))
    pilot.app.push_screen(screen)
    await until_text(pilot, "corpus.chunk_tokens")
    return screen


async def find(pilot: Pilot[Any], name: str) -> None:
    pilot.app.screen.query_one("#find", Input).value = name
    await pilot.pause()
    pilot.app.screen.query_one("#setting-list").focus()
    await until(
        pilot, lambda: pilot.app.screen.chosen and pilot.app.screen.chosen.name == name, name
    )  # type: ignore[attr-defined]


def listed(screen: SettingsScreen) -> list[str]:
    options = screen.query_one("#setting-list", SafeOptions).options
    return [str(option.id) for option in options if not option.disabled]


def test_common_settings_come_first_and_all_on_request(new_project: Path) -> None:
    """By section, with those that are set; what is typed is looked for in all."""
    every = list_settings()
    folder = ProjectFolder(new_project)
    folder.change_settings({"training.lora_rank": 8})
    written = folder.settings().model_dump(exclude_unset=True)
    common = [
        name
        for name, setting in every.items()
        if setting.key.common or setting.key.name in written.get(name.split(".")[0], {})
    ]
    assert "training.lora_rank" in common

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        assert listed(screen) == common
        assert screen.chosen is not None
        assert screen.chosen.name == common[0]
        await find(pilot, "vectors.dtype")
        screen.query_one("#find", Input).value = ""
        button = screen.query_one("#all")
        for shown in (list(every), common):
            button.focus()
            await pilot.press("enter")
            await until(pilot, lambda shown=shown: listed(screen) == shown, "the list")  # type: ignore[misc]
            await until(
                pilot, lambda: not button.has_class("-active"), "the button to take a key again"
            )

    drive(story)


def value_of(screen: SettingsScreen) -> Input:
    return screen.query_one("#setting-value", Input)


async def typed(
    pilot: Pilot[Any],
    name: str,
    value: str,
) -> None:
    await find(pilot, name)
    await pilot.press("enter")
    pilot.app.screen.query_one("#setting-value", Input).value = value


def written(project: Path) -> dict[str, Any]:
    return tomllib.loads((project / "project.toml").read_text())


def test_a_change_that_makes_stages_stale_is_written_on_apply(finished_project: Path) -> None:
    before = (finished_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, finished_project)
        change = screen.query_one(ChangeLine)
        for agreed in (False, True):
            await typed(pilot, "training.learning_rate", "0.002")
            await pilot.press("enter")
            await until(
                pilot,
                lambda: pilot.app.focused is change.query_one("#change-apply"),
                "the question",
            )
            assert (finished_project / "project.toml").read_text() == before
            await pilot.press("enter" if agreed else "escape")
            await until(
                pilot,
                lambda: not change.waiting,
                "the answer",
            )
            await pilot.press("escape")
        await until(
            pilot,
            lambda: written(finished_project)["training"].get("learning_rate") == 0.002,
            "the change",
        )

    drive(story)


def test_a_choice_is_picked(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await find(pilot, "corpus.context")
        await pilot.press("enter")
        await until_text(pilot, "headings")
        await pilot.press("right", "enter")
        await until(
            pilot,
            lambda: screen.values["corpus.context"] == "headings",
            "the choice",
        )
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is not screen)

    drive(story)
    assert written(new_project)["corpus"]["context"] == "headings"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("corpus.chunk_tokens", "3", "16"), ("ranking.k", "many", "ranking.k")],
)
def test_a_wrong_value_can_be_corrected_where_it_stands(
    new_project: Path, name: str, value: str, shown: str
) -> None:
    before = (new_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await typed(pilot, name, value)
        await pilot.press("enter")
        await until_text(pilot, "✗")
        assert shown in screen_text(pilot.app)  # type: ignore[arg-type]
        for again in ("enter", "ctrl+s"):
            await pilot.press(again)
            await until_text(pilot, "✗")
            assert (value_of(screen).value, value_of(screen).has_focus) == (value, True)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: pilot.app.screen is not screen)

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
        await pilot.press(*"zz", "enter", "backspace")  # what nothing is found for can be corrected
        await until(pilot, lambda: screen.query_one("#find", Input).value == "retrainz")

    drive(story)


def test_a_mistyped_setting_is_not_found_and_the_nearest_is_named(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        screen.query_one("#find", Input).value = "search.tpo"
        await until_text(pilot, "search.top")
        assert screen.chosen is None

    drive(story)


def test_an_edit_by_hand_meanwhile_is_kept(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        path = new_project / "project.toml"
        path.write_text(path.read_text() + "\n# a note of my own\n")
        await typed(pilot, "search.top", "7")
        await pilot.press("enter")
        await until(
            pilot,
            lambda: screen.values["search.top"] == 7,
            "the change",
        )

    drive(story)
    text = (new_project / "project.toml").read_text()
    assert "# a note of my own" in text
    assert tomllib.loads(text)["search"]["top"] == 7


def test_enter_on_a_value_that_was_not_changed_changes_nothing(new_project: Path) -> None:
    ProjectFolder(new_project).change_settings({"encoder.model": "a\u202eb\tc"})
    before = (new_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await find(pilot, "encoder.model")
        await pilot.press("enter")
        assert value_of(screen).value == "a\ufffdb c"
        await pilot.pause()
        assert value_of(screen).region.height == 1
        await pilot.press("enter")
        await until(
            pilot,
            lambda: not value_of(screen).display,
            "the field to be closed",
        )
        assert not screen.query_one(ChangeLine).waiting

    drive(story)
    assert (new_project / "project.toml").read_text() == before


@pytest.mark.parametrize("key", ["tab", "ctrl+s"])
def test_what_is_typed_is_a_change_when_the_field_is_left_or_saved(
    new_project: Path, key: str
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, new_project)
        await typed(pilot, "training.learning_rate", "0.002")
        await pilot.press(key)
        await until(
            pilot,
            lambda: screen.values["training.learning_rate"] == 0.002,
            "the change",
        )

    drive(story)
    assert written(new_project)["training"]["learning_rate"] == 0.002
