"""The first screen: the sample, a new project, the list of projects, a run in progress."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures
from fixtures.app import drive, opened, screen_text, text_of, until, until_screen, until_text
from fixtures.home_screen import is_opened, offered, project_at, typed, until_offered
from fixtures.shown_numbers import numbers
from fixtures.training_events import step
from fixtures.waiting_run import waiting_run
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from bmembed_tui.dialogs.confirmations import ErrorDialog
from bmembed_tui.dialogs.folder_picker import FolderPicker
from bmembed_tui.home.new_project import NewProjectScreen
from bmembed_tui.home.projects import KnownProject, describe_project, describe_run
from bmembed_tui.home.recents import list_recent_projects, remember
from bmembed_tui.home.sample import import_questions, open_sample_project
from bmembed_tui.home.screen import ALL, NEW, OTHER, SAMPLE, HomeScreen
from bmembed_tui.widgets.fields import PathField
from engine.core.assets import asset_path
from engine.core.events import Paused, Progress, StageStarted, encode
from engine.project.folder import ProjectFolder, projects_root

ADA = Path("/home/ada")


def without_breaks(pilot: Pilot[Any]) -> str:
    """Return what the screen shows, with long paths as if they stood on one line."""
    return re.sub(r"[│\s]", "", screen_text(pilot.app))  # type: ignore[arg-type]


def line_of(pilot: Pilot[Any], key: str) -> str:
    """What a choice of the first screen says."""
    return str(
        pilot.app.screen.query_one("#home-choices", OptionList).get_option(key).prompt
    ).strip()


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_the_first_start_offers_the_sample_a_new_project_and_another_folder(
    size: tuple[int, int],
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await until_offered(pilot)
        assert offered(pilot) == [SAMPLE, NEW, OTHER]
        shown = screen_text(pilot.app)  # type: ignore[arg-type]
        places = [
            shown.index(line_of(pilot, key).partition("  ")[0]) for key in (SAMPLE, NEW, OTHER)
        ]
        assert places == sorted(places)

    drive(story, size=size)


def test_projects_opened_lately_are_listed_before_anybody_has_looked_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_at(tmp_path / "manuals")
    for name in ("gone", "manuals"):
        remember(tmp_path / name)
    looking = threading.Event()

    def known() -> list[KnownProject]:
        looking.wait(60)
        return [describe_project(path) for path in list_recent_projects()]

    monkeypatch.setattr("bmembed_tui.home.projects.list_projects", known)
    keys = [f"at:{tmp_path / name}" for name in ("manuals", "gone")]

    async def story(pilot: Pilot[Any]) -> None:
        await until_offered(pilot)
        assert offered(pilot) == [SAMPLE, NEW, OTHER, ALL, *keys]
        looking.set()
        await until(
            pilot, lambda: offered(pilot) == [SAMPLE, NEW, OTHER, keys[0]], "what is still there"
        )

    drive(story)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("running", [0, 2])
def test_what_is_found_later_moves_nothing(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], running: int
) -> None:
    looking = threading.Event()

    def known() -> list[KnownProject]:
        looking.wait(60)
        return [
            KnownProject(ADA / str(number), number > 8 - running, "train") for number in range(9)
        ]

    monkeypatch.setattr("bmembed_tui.home.projects.list_projects", known)

    async def story(pilot: Pilot[Any]) -> None:
        await until_offered(pilot)
        await until(
            pilot, lambda: screen_text(pilot.app).splitlines()[-1].strip(), "the line of keys"
        )
        before = screen_text(pilot.app).splitlines()
        looking.set()
        await until_text(pilot, str(ADA))
        after = screen_text(pilot.app).splitlines()
        other = line_of(pilot, OTHER).partition("  ")[0]
        place = next(number for number, line in enumerate(before) if other in line)
        kept = slice(place - 2, place + 1)
        assert before[kept] == after[kept]
        assert before[: place - 3] == after[: place - 3]
        assert (line_of(pilot, f"at:{ADA / '7'}") in after[place - 3]) == bool(running)
        assert (line_of(pilot, f"at:{ADA / '8'}") in after[place + 2]) == bool(running)
        assert [line.strip()[:1] for line in before] == [
            line.strip()[:1] for line in after
        ]  # the frame, too
        assert line_of(pilot, f"at:{ADA / '6'}") in "\n".join(after)

    drive(story, size=size)


def test_a_run_that_comes_or_goes_takes_nobody_from_where_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [KnownProject(ADA / "manuals")]
    monkeypatch.setattr("bmembed_tui.home.projects.list_projects", lambda: list(found))

    async def story(pilot: Pilot[Any]) -> None:
        choices = pilot.app.screen.query_one("#home-choices", OptionList)

        async def highlighted_with(known: KnownProject) -> str | None:
            found[:] = [known]
            pilot.app.screen.load()
            await until(pilot, lambda: choices.has_class("-running") == known.running)
            assert choices.highlighted is not None
            return choices.get_option_at_index(choices.highlighted).id

        await until_offered(pilot, f"at:{ADA / 'manuals'}")
        idle = found[0]
        running = KnownProject(
            ADA / "manuals",
            True,
            "train",
        )
        assert (
            await highlighted_with(running) == f"at:{ADA / 'manuals'}"
        )  # at the first line, nothing was chosen yet
        await pilot.press("down")
        assert await highlighted_with(idle) == SAMPLE
        await pilot.press("down")
        assert await highlighted_with(running) == NEW
        await pilot.press("up", "up")
        assert await highlighted_with(idle) == f"at:{ADA / 'manuals'}"

    drive(story)


def test_enter_makes_the_sample_with_its_questions_and_opens_it_at_its_documents() -> None:
    async def story(pilot: Pilot[Any]) -> tuple[str, Path]:
        await until_offered(pilot)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: is_opened(pilot),
            "the sample",
        )
        await until(
            pilot, lambda: numbers(text_of(pilot, "#documents-status"))[:1] == [132], "the files"
        )
        await until(
            pilot,
            lambda: (
                len(list((pilot.app.screen.project.path / "imports").glob("judgments-*.jsonl")))
                == 2
            ),
            "questions",
        )
        return pilot.app.screen.pane.step, pilot.app.screen.project.path

    step, path = drive(story)
    assert (step, path) == ("documents", projects_root() / "sample")
    settings = ProjectFolder(path).settings()
    assert settings.corpus.paths == [str(asset_path("sample/documents"))]
    assert settings.training.preset == "quick"
    assert settings.queries.backend == "imported"
    assert len(list((path / "imports").glob("queries-*.jsonl"))) == 1
    assert list_recent_projects() == [path]


def test_the_sample_takes_a_free_name_where_its_own_is_taken_and_is_found_again() -> None:
    project_at(projects_root() / "sample")
    (projects_root() / "sample-2").mkdir()
    (projects_root() / "sample-2" / "letter.txt").write_text("mine")
    (projects_root() / "sample-3").mkdir()

    made = [open_sample_project().path for _ in range(2)]

    assert made == [projects_root() / "sample-3"] * 2


def test_the_samples_queries_and_questions_are_imported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[tuple[str, ...]] = []

    async def note(*arguments: str) -> None:
        commands.append(arguments)

    project = open_sample_project()
    monkeypatch.setattr("bmembed_tui.home.sample.run_command", note)
    asyncio.run(import_questions(project))
    for name in ("queries-1.jsonl", "judgments-1.jsonl"):
        (project.path / "imports" / name).write_text("{}")
    asyncio.run(import_questions(project))
    path = str(project.path)
    assert commands == [
        ("import-queries", path, str(asset_path("sample/queries.jsonl"))),
        ("import-judgments", path, str(asset_path("sample/questions.jsonl"))),
        (
            "import-judgments",
            path,
            str(asset_path("sample/questions-measuring.jsonl")),
            "--measure",
        ),
    ]


def test_what_is_typed_while_a_project_is_being_opened_is_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    may_open = threading.Event()

    def open_late(_name: str) -> ProjectFolder:
        may_open.wait(60)
        return pictures.RecordedProject(pictures.PROJECT)

    monkeypatch.setattr(
        ProjectFolder,
        "open",
        staticmethod(open_late),
    )

    async def story(pilot: Pilot[Any]) -> None:
        await until_offered(pilot, f"at:{pictures.PROJECT}")
        pilot.app.screen.open("sample", "search")
        await pilot.press("n", "o", "x", "backspace", "1")  # n and o have a meaning otherwise
        assert isinstance(pilot.app.screen, HomeScreen)
        may_open.set()
        screen = await opened(pilot)
        await until(
            pilot, lambda: screen.query_one("#search-query", Input).value == "no1", "what was typed"
        )

    drive(story)


def test_a_broken_project_is_marked_in_the_list_and_its_error_is_shown_when_it_is_opened() -> None:
    project_at(projects_root() / "sound")
    broken = project_at(projects_root() / "broken")
    (broken.path / "project.toml").write_text("[corpus\n")

    async def story(pilot: Pilot[Any]) -> None:
        await until_offered(pilot, f"at:{projects_root() / 'sound'}")
        assert [line_of(pilot, key).startswith("✗") for key in offered(pilot)[4:]] == [True, False]
        await pilot.press(
            "down",
            "down",
            "down",
            "down",
            "enter",
        )
        assert (await until_screen(pilot, ErrorDialog)).error.code == "settings-not-toml"
        await until(
            pilot,
            lambda: "project.toml" in without_breaks(pilot),
            "the file",
        )
        await pilot.press("escape", "down", "enter")
        await until(
            pilot,
            lambda: is_opened(pilot),
            "the sound project",
        )

    drive(story)


def test_a_project_that_vanished_leaves_the_list_and_a_damaged_list_is_empty(
    tmp_path: Path,
) -> None:
    kept = project_at(tmp_path / "kept")
    gone = project_at(tmp_path / "gone")
    for project in (kept, gone):
        remember(project.path)
    assert list_recent_projects() == [gone.path, kept.path]
    (gone.path / "project.toml").unlink()
    assert list_recent_projects() == [kept.path]
    (tmp_path / "state" / "bmembed" / "recent.json").write_text('{"not": ["a list"')
    assert list_recent_projects() == []


def test_remembering_a_project_looks_at_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = project_at(tmp_path / "kept")
    more = project_at(tmp_path / "more")
    remember(kept.path)

    def look(path: Path) -> bool:
        raise AssertionError(f"a disk that is gone answers late: {path}")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", look)
        remember(more.path)
    assert list_recent_projects() == [more.path, kept.path]


def test_leaving_while_the_sample_is_made_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    making = threading.Event()
    left = threading.Event()

    def make() -> ProjectFolder:
        making.set()
        assert left.wait(60)
        return ProjectFolder(Path("sample"))

    monkeypatch.setattr("bmembed_tui.home.sample.open_sample_project", make)
    monkeypatch.setattr("bmembed_tui.app.BmembedApp.on_unmount", lambda _app: left.set())
    opened: list[Path] = []
    monkeypatch.setattr(
        "bmembed_tui.app.BmembedApp.open_project",
        lambda _app, project, *_, **__: opened.append(project.path),
    )

    async def story(pilot: Pilot[Any]) -> None:
        await until_offered(pilot)
        await pilot.press("enter")
        await until(
            pilot,
            making.is_set,
            "the making",
        )

    drive(story)
    assert left.is_set()
    assert not opened


@pytest.mark.posix(reason="names hold no control characters on Windows")
def test_names_of_projects_are_shown_as_typed(tmp_path: Path) -> None:
    remember(project_at(tmp_path / "[@click=app.quit]x[" / "[bold]y\x1b[2J").path)

    async def story(pilot: Pilot[Any]) -> str:
        await until_text(pilot, "[bold]y")
        return screen_text(pilot.app)

    shown = drive(story)
    assert "[bold]y␛[2J" in shown
    assert "[@click=app.quit]x[" in shown


def test_another_folder_is_opened_by_its_path_and_one_without_a_project_gets_one(
    tmp_path: Path,
) -> None:
    project = project_at(tmp_path / "elsewhere" / "manuals")
    (tmp_path / "elsewhere" / "plain").mkdir()

    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("o")
        field = (await until_screen(pilot, FolderPicker)).query_one("#picker-path", Input)
        await typed(pilot, f"{tmp_path}/elsewhere/pl")
        await pilot.press("tab")
        await until(
            pilot,
            lambda: field.value == f"{tmp_path}/elsewhere/plain/",
            "the whole path",
        )
        await pilot.press("enter")
        created = await until_screen(pilot, NewProjectScreen)
        documents = created.query_one("#new-documents", PathField)
        await until(
            pilot,
            lambda: documents.path == tmp_path / "elsewhere" / "plain",
            "its path",
        )
        await pilot.press("escape")
        await until_screen(pilot, HomeScreen)
        await pilot.press("o")
        picker = await until_screen(pilot, FolderPicker)
        await typed(pilot, f"{tmp_path}/nowhere")
        await pilot.press("enter")
        await until(
            pilot, lambda: "nowhere" in str(picker.query_one("#picker-note").render()), "the reason"
        )
        await pilot.press("escape", "o")
        await typed(pilot, str(project.path))
        await pilot.press("enter")
        await until(
            pilot,
            lambda: is_opened(pilot),
            "the project",
        )
        assert pilot.app.screen.project.path == project.path

    drive(story, size=(200, 50))


def test_a_folder_of_documents_at_the_start_is_offered_a_project(tmp_path: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        created = await until_screen(pilot, NewProjectScreen)
        documents = created.query_one("#new-documents", PathField)
        await until(
            pilot,
            lambda: documents.path == tmp_path,
            "its path",
        )

    drive(story, tmp_path)


def test_a_run_in_progress_stands_first_with_what_it_does(finished_project: Path) -> None:
    remember(finished_project)
    key = f"at:{finished_project}"

    async def story(pilot: Pilot[Any]) -> None:
        with waiting_run(finished_project):
            await until_offered(pilot)
            await until(
                pilot,
                lambda: describe_run(finished_project) != "starting",
                "the run",
            )
            pilot.app.screen.load()
            await until(
                pilot,
                lambda: offered(pilot)[0] == key,
                "the run",
            )
            await until(
                pilot,
                lambda: line_of(pilot, key).endswith(describe_run(finished_project)),
                "what it does",
            )
            assert line_of(pilot, key).startswith("▶")
            assert offered(pilot) == [key, SAMPLE, NEW, OTHER]

    drive(story)


def test_what_a_run_does_is_read_from_its_log(tmp_path: Path) -> None:
    project = project_at(tmp_path / "p")
    assert describe_run(project.path) == "starting"
    folder = project.path / "runs" / "20261121-1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"run": "20261121-1", "state": "running"}))
    started = StageStarted(
        stage="ingest",
        fingerprint="",
        reason="",
    )
    log = [encode(started), encode(Progress(stage="ingest", done=1050, total=2000, unit="files"))]
    (folder / "events.jsonl").write_text("\n".join(log) + "\n")
    assert "Documents" in describe_run(project.path)
    assert numbers(describe_run(project.path)) == [1050, 2000]
    steps = [step(number, steps=4000) for number in range(1, 2001)]
    log.append(encode(StageStarted(stage="train", fingerprint="", reason="")))
    (folder / "events.jsonl").write_text("\n".join([*log, *map(encode, steps)]) + "\n")
    doing = describe_run(project.path)
    assert ("Train" in doing, numbers(doing)) == (True, [2000, 4000])
    with (folder / "events.jsonl").open("a") as file:
        file.write(encode(Paused(stage="train")) + '\n{"event": "progress", "sta')
    paused = describe_run(project.path)
    assert paused.endswith(doing)
    assert paused != doing


def test_a_project_that_cannot_be_locked_is_listed_with_the_reason(tmp_path: Path) -> None:
    project = project_at(tmp_path / "p")
    (project.path / "run.lock").unlink(missing_ok=True)
    (project.path / "run.lock").mkdir()
    known = describe_project(project.path)
    assert not known.running
    assert known.problem
