"""Files and folders that are dropped where nothing is typed."""

from __future__ import annotations

import nturl2path
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, opened, until, until_screen, until_text
from textual import events
from textual.pilot import Pilot

from bmembed_tui.home.new_project import NewProjectScreen
from bmembed_tui.home.screen import HomeScreen
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.widgets.dropped import find_dropped_path
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.safe import SafeButton
from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.usefixtures("own_folders")


def drop(pilot: Pilot[Any], text: str) -> None:
    """As the window and terminals send it to the app."""
    pilot.app.post_message(events.Paste(text))


def test_a_path_is_understood_as_terminals_write_it(tmp_path: Path) -> None:
    folder = tmp_path / "it's a föld er"
    folder.mkdir()
    for text in (str(folder), f" {folder}\n", f'"{folder}"', folder.as_uri()):
        assert find_dropped_path(text) == folder, text
    for text in (
        "",
        "a word",
        "documents",
        "/no/such/folder",
        f"{tmp_path} {tmp_path}",
        "'",
        "x" * 9000,
        "/a\0b",
        "file://[x",
    ):
        assert find_dropped_path(text) is None, text


@pytest.mark.posix(reason="a backslash is part of a path on Windows")
def test_a_path_with_backslashes_is_understood(tmp_path: Path) -> None:
    folder = tmp_path / "it's a föld er"
    folder.mkdir()
    escaped = str(folder).replace(" ", "\\ ").replace("'", "\\'")
    assert find_dropped_path(escaped) == folder
    server = tmp_path / "quay\\\\a b"  # two backslashes, as before the name of a server
    server.mkdir(parents=True)
    assert find_dropped_path(f'"{server}"') == server


@pytest.mark.parametrize("text", ["file:///C:/a:b", "file://:", "file:///"])
def test_an_address_that_windows_cannot_read_names_nothing(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("urllib.request.url2pathname", nturl2path.url2pathname)
    assert find_dropped_path(text) in (None, Path("\\"))


def test_on_the_first_screen_a_project_is_opened_and_of_other_folders_one_is_made(
    tmp_path: Path,
) -> None:
    project = ProjectFolder.create(tmp_path / "manuals", {})
    (tmp_path / "My papers").mkdir()

    async def story(pilot: Pilot[Any]) -> None:
        await until_screen(pilot, HomeScreen)
        drop(pilot, "only words")
        drop(pilot, str(tmp_path / "My papers"))
        await until(
            pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project"
        )
        assert (
            pilot.app.screen.query_one("#new-documents", PathField).path == tmp_path / "My papers"
        )
        await until_text(pilot, "My papers")
        assert pilot.app.screen.query_one("#new-name").value == "My papers"
        await pilot.press("escape")  # nothing was typed, so nothing is asked
        await until_screen(pilot, HomeScreen)
        drop(pilot, str(project.path))
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ProjectScreen),
            "the project",
        )
        assert pilot.app.screen.project.path == project.path

    drive(story)


def test_in_the_step_documents_a_folder_is_added(new_project: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "documents")
        await until(
            pilot,
            lambda: screen.pane.corpus is not None,
            "the settings",
        )
        drop(pilot, str(tmp_path / "more"))
        await until(
            pilot,
            lambda: len(ProjectFolder(new_project).settings().corpus.paths) == 2,
            "the folder",
        )

    drive(story, new_project)
    assert ProjectFolder(new_project).settings().corpus.paths[1] == str(tmp_path / "more")


@pytest.mark.parametrize("in_window", [True, False])
def test_a_window_offers_the_systems_dialog_for_the_documents(
    monkeypatch: pytest.MonkeyPatch, in_window: bool
) -> None:
    browsed: list[str] = []
    monkeypatch.setattr("bmembed_tui.app.BmembedApp.is_web", in_window)
    monkeypatch.setattr(
        PathField,
        "browse",
        lambda field: browsed.append(str(field.id)),
    )

    async def story(pilot: Pilot[Any]) -> None:
        await until_screen(pilot, HomeScreen)
        await pilot.press("n")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project"
        )
        for button in pilot.app.screen.query("#browse").results(SafeButton):
            assert button.region.area
            button.press()
        await pilot.pause()

    drive(story)
    assert browsed == (["new-documents"] if in_window else [])
