"""A new project: its folder, its name, and what is refused while it is typed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, until, until_screen, until_text
from fixtures.home_screen import is_opened, project_at, typed
from textual.pilot import Pilot

from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.home.here import suggest_name
from bmembed_tui.home.new_project import NewProjectScreen
from bmembed_tui.home.screen import HomeScreen
from bmembed_tui.widgets import fields
from bmembed_tui.widgets.fields import complete_path
from engine.core.platforms import SYSTEM
from engine.project.folder import ProjectFolder, projects_root


def test_a_new_project_is_made_by_enter_alone_after_the_path_is_typed(tmp_path: Path) -> None:
    documents = tmp_path / "Our Hand-book"
    documents.mkdir()
    (documents / "a.txt").write_text("Every batch is released by the head of quality.")

    async def story(pilot: Pilot[Any]) -> Path:
        await pilot.press("n")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project"
        )
        await typed(pilot, f"{tmp_path}/no")
        await pilot.press("tab")
        assert pilot.app.screen.focused.id == "new-documents"  # it names nothing yet
        await pilot.press("backspace", "backspace")
        pilot.app.screen.query_one("#new-tree").focus()
        await pilot.press("O")
        assert pilot.app.screen.focused.value == f"{tmp_path}/O"
        await typed(pilot, "ur")
        await pilot.press("tab")
        await until_text(pilot, str(projects_root() / "Our Hand-book"))
        await until_text(pilot, "a.txt")
        await pilot.press(
            "enter",
            "enter",
            "enter",
            "down",
            "enter",
        )
        await until(
            pilot,
            lambda: is_opened(pilot),
            "the project",
        )
        assert pilot.app.screen.pane.step == "documents"
        return pilot.app.screen.project.path

    path = drive(story, size=(160, 40))
    assert path == projects_root() / "Our Hand-book"
    settings = ProjectFolder(path).settings()
    assert settings.corpus.paths == [str(documents)]
    assert settings.training.preset == "quick"


def test_a_new_project_shows_while_typing_what_the_engine_would_refuse(tmp_path: Path) -> None:
    documents = tmp_path / "papers"
    documents.mkdir()
    project_at(projects_root() / "taken")

    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project"
        )
        fields = pilot.app.screen

        async def until_codes(*codes: str) -> None:
            await until(
                pilot,
                lambda: [error.code if error else "" for error in fields.problems] == [*codes],
                str(codes),
            )

        await pilot.press(
            "enter",
            "enter",
            "enter",
            "enter",
        )
        await until_codes("documents-not-chosen", "project-name-invalid")
        await typed(pilot, f"{tmp_path}/paperz")
        await until_codes("path-missing", "")
        note = fields.query_one("#new-documents-note")
        assert not str(note.render())  # the path may be half typed
        fields.query_one("#new-name").focus()
        await until(
            pilot,
            lambda: str(note.render()),
            "the reason",
        )
        fields.query_one("#new-documents").focus()
        await pilot.press("backspace", "s")
        await until_codes("", "")
        name = fields.query_one("#new-name")
        assert name.value == "papers"
        name.value = "taken"
        await until_codes("", "project-exists")
        name.value = "a:b"
        await until_codes("", "project-name-invalid")
        name.value = "fine"
        fields.query_one("#new-place").value = str(tmp_path / "kept")
        await until_text(pilot, str(tmp_path / "kept" / "fine"))
        for keys in (("enter",), ("right", "enter")):
            await until_screen(pilot, NewProjectScreen)
            await pilot.press("escape")
            await until_screen(pilot, QuestionDialog)
            await pilot.press(*keys)
        await until_screen(pilot, HomeScreen)

    drive(story, size=(200, 50))
    assert sorted(path.name for path in projects_root().iterdir()) == ["taken"]
    assert not (tmp_path / "kept").exists()


def test_a_folder_whose_name_is_no_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = Path(f"{tmp_path}/odd\udcff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")

    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project"
        )
        screen = pilot.app.screen
        screen.query_one("#new-documents").pick(folder)
        await until(
            pilot,
            lambda: screen.problems[0] and screen.problems[0].code == "text-not-storable",
            "the reason",
        )

    drive(story, size=(200, 50))


def test_a_name_is_suggested_that_is_free_and_can_be_a_folder() -> None:
    assert suggest_name(Path("/srv/handbook")) == "handbook"
    assert suggest_name(Path("/srv/a:b*c")) == "a-b-c"
    assert suggest_name(Path("/")) == "documents"
    project_at(projects_root() / "handbook")
    assert suggest_name(Path("/srv/handbook")) == "handbook-2"


def test_a_path_is_completed_as_far_as_it_is_clear(tmp_path: Path) -> None:
    for name in ("reports-2025", "reports-2026", "letters", ".hidden"):
        (tmp_path / name).mkdir()
    if SYSTEM != "windows":  # where names hold no control characters
        (tmp_path / "odd\x1bname").mkdir()
    (tmp_path / "list.txt").write_text("")
    assert complete_path(f"{tmp_path}/r") == f"{tmp_path}/reports-202"
    assert complete_path(f"{tmp_path}/reports-2026") == f"{tmp_path}/reports-2026/"
    assert complete_path(f"{tmp_path}/l") == f"{tmp_path}/letters/"
    assert complete_path(f"{tmp_path}/l", files=True) == f"{tmp_path}/l"
    assert complete_path(f"{tmp_path}/.h") == f"{tmp_path}/.hidden/"
    assert complete_path(f"{tmp_path}/odd") == f"{tmp_path}/odd"
    assert complete_path(f"{tmp_path}/no/such") == f"{tmp_path}/no/such"
    assert complete_path("~no-such-user/x") == "~no-such-user/x"


def test_a_path_of_windows_is_completed_with_the_separator_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On other systems, the backslash is part of a folder's name here."""
    monkeypatch.setattr(
        fields,
        "SEPARATORS",
        ("/", "\\"),
    )
    folder = f"{tmp_path}{os.sep}quay\\"
    Path(folder).mkdir()
    (Path(folder) / "letters").mkdir()
    assert complete_path(f"{folder}l") == f"{folder}letters\\"
