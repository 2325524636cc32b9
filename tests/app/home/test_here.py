"""The folder that the app was started in."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, opened, until
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import OptionList

from bmembed_tui.home.here import find_current_folder, open_project_over
from bmembed_tui.home.recents import remember
from bmembed_tui.home.screen import HERE, INDENT
from bmembed_tui.steps.search.hit_list import QueryInput
from engine.project.folder import ProjectFolder


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("engine.project.folder.projects_root", lambda: tmp_path / "projects")
    return tmp_path / "projects"


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "papers"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("The landlord repairs the roof.")
    return folder


def test_the_home_what_holds_it_and_a_project_are_not_offered(
    papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Path,
        "home",
        lambda: papers.parent,
    )
    for folder, offered in (
        (papers, papers),
        (papers.parent, None),
        (papers.parent.parent, None),
        (Path("/"), None),
    ):
        monkeypatch.chdir(folder)
        assert find_current_folder() == offered
    monkeypatch.chdir(papers)
    (papers / "project.toml").touch()
    assert find_current_folder() is None


def test_a_folder_has_one_project(papers: Path, projects: Path) -> None:
    made = open_project_over(papers)
    assert (made.path.parent, made.settings().corpus.paths) == (projects, [str(papers)])
    assert open_project_over(papers) == made
    assert open_project_over(papers.parent) != made


def test_the_project_used_last_of_several_over_the_folder_is_opened(
    papers: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmembed_tui.home.screen.find_current_folder", lambda: papers)
    made = [
        ProjectFolder.create(projects / name, {"corpus": {"paths": [path]}})
        for name, path in (
            ("one", f"{papers}/"),
            ("two", str(papers)),
            ("three", str(papers.parent)),
        )
    ]
    for project, run in zip(made, ("20260101", "20260201", "20260301"), strict=True):
        (project.path / "runs" / run).mkdir()

    async def shown(pilot: Pilot[Any]) -> str:
        await until(
            pilot,
            lambda: not pilot.app.workers,
            "the look at the projects",
        )
        return str(pilot.app.screen.query_one("#home-choices", OptionList).get_option(HERE).prompt)

    assert re.search(r" two\W.* 2\W", drive(shown, size=(200, 40)))
    assert open_project_over(papers) == made[1]
    remember(made[0].path)
    assert re.search(r" one\W.* 2\W", drive(shown, size=(200, 40)))
    assert open_project_over(papers) == made[0]


def test_a_project_that_the_folder_has_is_named_before_enter(
    papers: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmembed_tui.home.screen.find_current_folder", lambda: papers)

    async def shown(pilot: Pilot[Any]) -> str:
        await until(
            pilot,
            lambda: not pilot.app.workers,
            "the look at the projects",
        )
        return str(pilot.app.screen.query_one("#home-choices", OptionList).get_option(HERE).prompt)

    assert "landlord-files" not in drive(shown)
    ProjectFolder.create(projects / "landlord-files", {"corpus": {"paths": [str(papers)]}})
    assert "landlord-files" in drive(shown)
    # In a narrow terminal, continuation rows are indented below the choice.
    first, *others = drive(shown, size=(60, 24)).splitlines()
    assert len(first) - len(first.lstrip()) == 2
    assert {len(row) - len(row.lstrip()) for row in others} == {INDENT}
    assert "".join(others).replace(" ", "").endswith(str(papers))


def test_a_key_searches_the_folder_that_the_app_was_started_in_and_takes_what_is_typed_meanwhile(
    papers: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered: list[tuple[str, ...]] = []

    async def order(*arguments: str) -> Any:
        ordered.append(arguments)
        await asyncio.Event().wait()

    monkeypatch.setattr("bmembed_tui.steps.runs.run_detached_command", order)
    monkeypatch.setattr("bmembed_tui.home.screen.find_current_folder", lambda: papers)

    async def story(pilot: Pilot[Any]) -> None:
        await until(
            pilot,
            lambda: pilot.app.screen.query(OptionList),
            "the first screen",
        )
        await pilot.press("down")
        # as fast as the terminal sends it; n makes a new project otherwise
        for key in (
            "enter",
            *"neap",
        ):
            pilot.app.post_message(Key(key, None))
        screen = await opened(pilot, "search")
        await until(
            pilot,
            lambda: ordered and isinstance(screen.focused, QueryInput),
            "the run",
        )
        assert "ingest,index,embed" in ordered[0]
        await pilot.press("backspace", *"r1")
        assert screen.pane.question.query == "near1"
        assert (
            not {"f5", "f9", "f10"} & screen.active_bindings.keys()
        )  # there is nothing to ask yet

    drive(story)
