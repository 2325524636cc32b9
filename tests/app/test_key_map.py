"""Keys that a user has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, until_screen, until_text
from fixtures.project_files import mode
from fixtures.user_folders import CONFIG
from textual.pilot import Pilot

from bmembed_tui import keymap
from bmembed_tui.dialogs.confirmations import ErrorDialog
from bmembed_tui.dialogs.help import format_key
from bmembed_tui.home.screen import HomeScreen
from engine.core.errors import SettingsError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of the test's own; returns where the key map lies."""
    monkeypatch.setenv(CONFIG, str(tmp_path / "config"))
    path = keymap.keymap_file()
    path.parent.mkdir(parents=True)
    return path


def test_a_key_map_changes_keys(config: Path) -> None:
    config.write_text('"app.help" = "f9"\n"home.new" = ["g", "f8"]\n')

    async def story(pilot: Pilot[Any]) -> None:
        await until_text(pilot, "g new project")
        await pilot.press("f9")
        await until_text(pilot, "g F8")

    drive(story)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('"app.halp" = "f9"', "keymap-unknown-action"),
        ("app.help = ", "keymap-invalid"),
        ('"app.help" = 3', "keymap-invalid"),
        ('"app.help" = []', "keymap-invalid"),
        ('"app.help" = ["", "f9"]', "keymap-invalid"),
    ],
)
def test_a_wrong_key_map_is_reported_and_stops_nothing(
    config: Path,
    text: str,
    code: str,
) -> None:
    config.write_text(text)

    async def story(pilot: Pilot[Any]) -> None:
        error = (await until_screen(pilot, ErrorDialog)).error
        assert (error.code, "app.help" in str(error)) == (
            code,
            code == "keymap-unknown-action" or 'app.help"' in text,
        )
        await pilot.press("escape")
        await until_screen(pilot, HomeScreen)

    drive(story)


def test_a_key_map_may_be_bytes_or_a_folder(config: Path) -> None:
    known = keymap.collect_bindings()
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError):
        keymap.load_keymap(known)
    config.unlink()
    config.mkdir()
    with pytest.raises(SettingsError):
        keymap.load_keymap(known)


def test_the_written_key_map_is_valid_and_private_and_never_overwritten(config: Path) -> None:
    known = keymap.collect_bindings()
    path = keymap.write_template(known)
    assert mode(path) == 0o600
    path.write_text(
        "".join(line.removeprefix("# ") for line in path.read_text().splitlines(keepends=True)[1:])
    )
    assert keymap.load_keymap(known) == {name: binding.key for name, binding in known.items()}
    keymap.write_template(known)
    assert keymap.load_keymap(known)


def test_every_key_has_a_name_that_users_know() -> None:
    for binding in keymap.collect_bindings().values():
        for key in binding.key.split(","):
            assert "_" not in format_key(key), binding


def test_every_action_with_a_name_has_one_of_its_own() -> None:
    assert {
        "app.help",
        "app.quit",
        "step.search",
        "run.all",
        "home.new",
        "dialog.copy",
        "documents.add",
        "search.preview",
        "settings.back",
    } <= keymap.collect_bindings().keys()


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("ctrl+p", "Ctrl+P"),
        ("f1", "F1"),
        ("question_mark", "?"),
        ("n", "n"),
        ("f", "f"),
        ("escape", "Esc"),
    ],
)
def test_keys_are_named_as_people_know_them(key: str, shown: str) -> None:
    assert format_key(key) == shown


@pytest.mark.parametrize(
    ("given", "called"),
    [("?", "question_mark"), ("ctrl+k", "ctrl+k"), ("N", "N"), ("+", "plus"), ("f2", "f2")],
)
def test_keys_may_be_written_as_they_are_shown(
    config: Path,
    given: str,
    called: str,
) -> None:
    known = keymap.collect_bindings()
    config.write_text(f'"app.help" = "{given}"')
    assert keymap.load_keymap(known) == {"app.help": called}


SEVERAL_MEANINGS = {
    "a": {"add", "ask"},
    "c": {"copy", "copy_chunk", "copy_text"},  # all copy text
    "d": {"order('by_date')", "detach"},
    "f": {"details", "evidence", "figures"},  # all show figures
    "l": {"lists", "like"},
    "m": {"metric", "mode", "next_mode"},
    "n": {"answer('wrong')", "match(1)", "new", "skip"},
    "o": {"open_file", "open_report", "other"},
    "p": {"match(-1)", "passages", "pause", "prompts"},
    "r": {"look", "rerank", "retry"},
    "s": {"sample", "skip"},
    "x": {"delete", "remove", "stop"},
    "y": {"answer('right')", "copy_path"},
}
"""Letter → what it does on one screen or another. For all others it is the same everywhere.

What closes a dialog by the letter that has opened it does not count.
"""


def test_a_letter_does_the_same_on_every_screen_except_these() -> None:
    actions: dict[str, set[str]] = {}
    for binding in keymap.collect_bindings().values():
        for key in binding.key.split(","):
            if len(key) == 1 and key.islower() and binding.action != "dismiss":
                actions.setdefault(key, set()).add(binding.action)
    several = {key: names for key, names in actions.items() if len(names) > 1}
    assert several == SEVERAL_MEANINGS
