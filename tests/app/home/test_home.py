"""The first screen: the sample, a new project, the list of projects, a run in progress."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, screen_text, text_of, until, until_screen, until_text
from fixtures.shown_numbers import numbers
from fixtures.waiting_run import waiting_run
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from bmembed_tui.dialogs.confirmations import ErrorDialog, QuestionDialog
from bmembed_tui.dialogs.folder_picker import FolderPicker
from bmembed_tui.home.here import suggested_name
from bmembed_tui.home.new_project import NewProjectScreen
from bmembed_tui.home.projects import Known, look_at, run_doing
from bmembed_tui.home.recents import recent, remember
from bmembed_tui.home.sample import import_questions, sample_project
from bmembed_tui.home.screen import NEW, OTHER, SAMPLE, HomeScreen
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.widgets.fields import completion
from engine.core.assets import asset_path
from engine.core.events import Paused, Progress, StageStarted, TrainStep, encode
from engine.project.folder import ProjectFolder, projects_root


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _project(path: Path, documents: str = "documents") -> ProjectFolder:
    return ProjectFolder.create(path, {"corpus": {"paths": [documents]}})


async def _type(pilot: Pilot[Any], text: str) -> None:
    for part in (text[:-1], text[-1]):
        pilot.app.screen.focused.insert_text_at_cursor(part)  # type: ignore[union-attr]
        await pilot.pause(0)


def _opened(pilot: Pilot[Any]) -> bool:
    screen = pilot.app.screen
    return isinstance(screen, ProjectScreen) and screen.pane is not None


def _offered(pilot: Pilot[Any]) -> list[str]:
    """Ids of the choices of the first screen, in order."""
    return [str(option.id) for option in pilot.app.screen.query_one("#home-choices", OptionList).options]


def _line(pilot: Pilot[Any], key: str) -> str:
    """What a choice of the first screen says."""
    return str(pilot.app.screen.query_one("#home-choices", OptionList).get_option(key).prompt).strip()


async def _until_offered(pilot: Pilot[Any], key: str = SAMPLE) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen) and key in _offered(pilot), key)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_the_first_start_offers_the_sample_a_new_project_and_another_folder(size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await _until_offered(pilot)
        assert _offered(pilot) == [SAMPLE, NEW, OTHER]
        shown = screen_text(pilot.app)  # type: ignore[arg-type]
        places = [shown.index(_line(pilot, key).partition("  ")[0]) for key in (SAMPLE, NEW, OTHER)]
        assert places == sorted(places)

    drive(story, size=size)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("running", [0, 2])
def test_what_is_found_later_moves_nothing(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], running: int
) -> None:
    looking = threading.Event()

    def known() -> list[Known]:
        looking.wait(60)
        return [Known(Path(f"/home/ada/{number}"), number > 8 - running, "train") for number in range(9)]

    monkeypatch.setattr("bmembed_tui.home.projects.known", known)

    async def story(pilot: Pilot[Any]) -> None:
        await _until_offered(pilot)
        await until(pilot, lambda: screen_text(pilot.app).splitlines()[-1].strip(), "the line of keys")
        before = screen_text(pilot.app).splitlines()
        looking.set()
        await until_text(pilot, "/home/ada")
        after = screen_text(pilot.app).splitlines()
        other = _line(pilot, OTHER).partition("  ")[0]
        place = next(number for number, line in enumerate(before) if other in line)
        kept = slice(place - 2, place + 1)
        assert before[kept] == after[kept]
        assert before[: place - 3] == after[: place - 3]
        assert (_line(pilot, "at:/home/ada/7") in after[place - 3]) == bool(running)
        assert (_line(pilot, "at:/home/ada/8") in after[place + 1]) == bool(running)
        assert [line.strip()[:1] for line in before] == [line.strip()[:1] for line in after]  # the frame, too
        assert _line(pilot, "at:/home/ada/6") in "\n".join(after)

    drive(story, size=size)


def test_a_run_that_comes_or_goes_takes_nobody_from_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Known(Path("/home/ada/manuals"))]
    monkeypatch.setattr("bmembed_tui.home.projects.known", lambda: list(found))

    async def story(pilot: Pilot[Any]) -> None:
        choices = pilot.app.screen.query_one("#home-choices", OptionList)

        async def highlighted_with(known: Known) -> str | None:
            found[:] = [known]
            pilot.app.screen.load()
            await until(pilot, lambda: choices.has_class("-running") == known.running)
            assert choices.highlighted is not None
            return choices.get_option_at_index(choices.highlighted).id

        await _until_offered(pilot, "at:/home/ada/manuals")
        idle, running = found[0], Known(Path("/home/ada/manuals"), True, "train")
        assert await highlighted_with(running) == "at:/home/ada/manuals"  # at the first line, nothing was chosen yet
        await pilot.press("down")
        assert await highlighted_with(idle) == SAMPLE
        await pilot.press("down")
        assert await highlighted_with(running) == NEW
        await pilot.press("up", "up")
        assert await highlighted_with(idle) == "at:/home/ada/manuals"

    drive(story)


def test_enter_makes_the_sample_with_its_questions_and_opens_it_at_its_documents() -> None:
    async def story(pilot: Pilot[Any]) -> tuple[str, Path]:
        await _until_offered(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: _opened(pilot), "the sample")
        await until(pilot, lambda: numbers(text_of(pilot, "#documents-status"))[:1] == [132], "the files")
        return pilot.app.screen.pane.step, pilot.app.screen.project.path

    step, path = drive(story)
    assert (step, path) == ("documents", projects_root() / "sample")
    settings = ProjectFolder(path).settings()
    assert settings.corpus.paths == [str(asset_path("sample/documents"))]
    assert settings.training.preset == "quick"
    assert len(list((path / "imports").glob("judgments-*.jsonl"))) == 1
    assert recent() == [path]


def test_the_sample_takes_a_free_name_where_its_own_is_taken_and_is_found_again() -> None:
    _project(projects_root() / "sample")
    (projects_root() / "sample-2").mkdir()
    (projects_root() / "sample-2" / "letter.txt").write_text("mine")
    (projects_root() / "sample-3").mkdir()

    made = [asyncio.run(sample_project()).path for _ in range(2)]

    assert made == [projects_root() / "sample-3"] * 2


def test_the_samples_questions_are_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    async def note(*arguments: str) -> None:
        commands.append(arguments)

    project = asyncio.run(sample_project())
    monkeypatch.setattr("bmembed_tui.home.sample.command", note)
    asyncio.run(import_questions(project))
    (project.path / "imports" / "judgments-1.jsonl").write_text("{}")
    asyncio.run(import_questions(project))
    assert commands == [
        ("import-judgments", str(project.path), str(asset_path("sample/documents").parent / "questions.jsonl"))
    ]


def test_a_broken_project_is_marked_in_the_list_and_its_error_is_shown_when_it_is_opened(tmp_path: Path) -> None:
    _project(projects_root() / "sound")
    broken = _project(projects_root() / "broken")
    (broken.path / "project.toml").write_text("[corpus\n")

    async def story(pilot: Pilot[Any]) -> None:
        await _until_offered(pilot, f"at:{projects_root() / 'sound'}")
        assert [_line(pilot, key).startswith("✗") for key in _offered(pilot)[3:]] == [True, False]
        await pilot.press("down", "down", "down", "enter")
        assert (await until_screen(pilot, ErrorDialog)).error.code == "settings-not-toml"
        await until_text(pilot, "project.toml")
        await pilot.press("escape", "down", "enter")
        await until(pilot, lambda: _opened(pilot), "the sound project")

    drive(story)


def test_a_project_that_vanished_leaves_the_list_and_a_damaged_list_is_empty(tmp_path: Path) -> None:
    kept, gone = _project(tmp_path / "kept"), _project(tmp_path / "gone")
    for project in (kept, gone):
        remember(project.path)
    assert recent() == [gone.path, kept.path]
    (gone.path / "project.toml").unlink()
    assert recent() == [kept.path]
    (tmp_path / "state" / "bmembed" / "recent.json").write_text('{"not": ["a list"')
    assert recent() == []


def test_remembering_a_project_looks_at_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, more = _project(tmp_path / "kept"), _project(tmp_path / "more")
    remember(kept.path)

    def look(path: Path) -> bool:
        raise AssertionError(f"a disk that is gone answers late: {path}")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", look)
        remember(more.path)
    assert recent() == [more.path, kept.path]


def test_leaving_while_the_sample_is_made_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = asyncio.Event()

    async def never(_project: ProjectFolder) -> None:
        importing.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("bmembed_tui.home.sample.import_questions", never)
    opened: list[Path] = []
    monkeypatch.setattr(
        "bmembed_tui.app.BmembedApp.open_project", lambda _app, project, *_: opened.append(project.path)
    )

    async def story(pilot: Pilot[Any]) -> None:
        await _until_offered(pilot)
        await pilot.press("enter")
        await asyncio.wait_for(importing.wait(), 60)

    drive(story)
    assert not opened


def test_names_of_projects_are_shown_as_typed(tmp_path: Path) -> None:
    remember(_project(tmp_path / "[@click=app.quit]x[" / "[bold]y\x1b[2J").path)

    async def story(pilot: Pilot[Any]) -> str:
        await until_text(pilot, "[bold]y")
        return screen_text(pilot.app)

    shown = drive(story)
    assert "[bold]y␛[2J" in shown
    assert "[@click=app.quit]x[" in shown


def test_another_folder_is_opened_by_its_path_and_one_without_a_project_is_refused(tmp_path: Path) -> None:
    project = _project(tmp_path / "elsewhere" / "manuals")
    (tmp_path / "elsewhere" / "plain").mkdir()

    async def story(pilot: Pilot[Any]) -> str:
        await pilot.press("o")
        field = (await until_screen(pilot, FolderPicker)).query_one("#picker-path", Input)
        await _type(pilot, f"{tmp_path}/elsewhere/pl")
        await pilot.press("tab")
        await until(pilot, lambda: field.value == f"{tmp_path}/elsewhere/plain/", "the whole path")
        await pilot.press("enter")
        error = (await until_screen(pilot, ErrorDialog)).error
        await pilot.press("escape", "o")
        picker = await until_screen(pilot, FolderPicker)
        await _type(pilot, f"{tmp_path}/nowhere")
        await pilot.press("enter")
        await until(pilot, lambda: "nowhere" in str(picker.query_one("#picker-note").render()), "the reason")
        await pilot.press("escape", "o")
        await _type(pilot, str(project.path))
        await pilot.press("enter")
        await until(pilot, lambda: _opened(pilot), "the project")
        assert pilot.app.screen.project.path == project.path
        return error.code

    assert drive(story, size=(200, 50)) == "project-missing"


def test_a_run_in_progress_stands_first_with_what_it_does(finished_project: Path) -> None:
    remember(finished_project)
    key = f"at:{finished_project}"

    async def story(pilot: Pilot[Any]) -> None:
        with waiting_run(finished_project):
            await _until_offered(pilot)
            await until(pilot, lambda: run_doing(finished_project) != "starting", "the run")
            pilot.app.screen.load()
            await until(pilot, lambda: _offered(pilot)[0] == key, "the run")
            await until(pilot, lambda: _line(pilot, key).endswith(run_doing(finished_project)), "what it does")
            assert _line(pilot, key).startswith("▶")
            assert _offered(pilot) == [key, SAMPLE, NEW, OTHER]

    drive(story)


def test_what_a_run_does_is_read_from_its_log(tmp_path: Path) -> None:
    project = _project(tmp_path / "p")
    assert run_doing(project.path) == "starting"
    folder = project.path / "runs" / "20261121-1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"run": "20261121-1", "state": "running"}))
    started = StageStarted(stage="ingest", fingerprint="", reason="")
    log = [encode(started), encode(Progress(stage="ingest", done=1050, total=2000, unit="files"))]
    (folder / "events.jsonl").write_text("\n".join(log) + "\n")
    assert "ingest" in run_doing(project.path)
    assert numbers(run_doing(project.path)) == [1050, 2000]
    steps = [
        TrainStep(
            step=n, steps=4000, loss=1.0, learning_rate=1e-5, tokens_per_second=1.0, memory_mb=1.0, seconds_left=1.0
        )
        for n in range(1, 2001)
    ]
    log.append(encode(StageStarted(stage="train", fingerprint="", reason="")))
    (folder / "events.jsonl").write_text("\n".join([*log, *map(encode, steps)]) + "\n")
    doing = run_doing(project.path)
    assert ("train" in doing, numbers(doing)) == (True, [2000, 4000])
    with (folder / "events.jsonl").open("a") as file:
        file.write(encode(Paused(stage="train")) + '\n{"event": "progress", "sta')
    paused = run_doing(project.path)
    assert paused.endswith(doing)
    assert paused != doing


def test_a_project_that_cannot_be_locked_is_listed_with_the_reason(tmp_path: Path) -> None:
    project = _project(tmp_path / "p")
    (project.path / "run.lock").unlink(missing_ok=True)
    (project.path / "run.lock").mkdir()
    known = look_at(project.path)
    assert not known.running
    assert known.problem


def test_a_new_project_is_made_by_enter_alone_after_the_path_is_typed(tmp_path: Path) -> None:
    documents = tmp_path / "Our Hand-book"
    documents.mkdir()
    (documents / "a.txt").write_text("Every batch is released by the head of quality.")

    async def story(pilot: Pilot[Any]) -> Path:
        await pilot.press("n")
        await until(pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project")
        await _type(pilot, f"{tmp_path}/Our")
        await pilot.press("tab")
        await until_text(pilot, f"{projects_root()}/Our Hand-book")
        await until_text(pilot, "a.txt")
        await pilot.press("enter", "enter", "enter", "down", "enter")
        await until(pilot, lambda: _opened(pilot), "the project")
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
    _project(projects_root() / "taken")

    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await until(pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project")
        fields = pilot.app.screen

        async def until_codes(*codes: str) -> None:
            await until(
                pilot, lambda: [error.code if error else "" for error in fields.problems] == [*codes], str(codes)
            )

        await pilot.press("enter", "enter", "enter", "enter")
        await until_codes("documents-not-chosen", "project-name-invalid")
        await _type(pilot, f"{tmp_path}/paperz")
        await until_codes("path-missing", "")
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
        await until_text(pilot, f"{tmp_path}/kept/fine")
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
    folder.mkdir()

    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await until(pilot, lambda: isinstance(pilot.app.screen, NewProjectScreen), "the new project")
        screen = pilot.app.screen
        screen.query_one("#new-documents").pick(folder)
        await until(pilot, lambda: screen.problems[0] and screen.problems[0].code == "text-not-storable", "the reason")

    drive(story, size=(200, 50))


def test_a_name_is_suggested_that_is_free_and_can_be_a_folder(tmp_path: Path) -> None:
    assert suggested_name(Path("/srv/handbook")) == "handbook"
    assert suggested_name(Path("/srv/a:b*c")) == "a-b-c"
    assert suggested_name(Path("/")) == "documents"
    _project(projects_root() / "handbook")
    assert suggested_name(Path("/srv/handbook")) == "handbook-2"


def test_a_path_is_completed_as_far_as_it_is_clear(tmp_path: Path) -> None:
    for name in ("reports-2025", "reports-2026", "letters", ".hidden", "odd\x1bname"):
        (tmp_path / name).mkdir()
    (tmp_path / "list.txt").write_text("")
    assert completion(f"{tmp_path}/r") == f"{tmp_path}/reports-202"
    assert completion(f"{tmp_path}/reports-2026") == f"{tmp_path}/reports-2026/"
    assert completion(f"{tmp_path}/l") == f"{tmp_path}/letters/"
    assert completion(f"{tmp_path}/l", files=True) == f"{tmp_path}/l"
    assert completion(f"{tmp_path}/.h") == f"{tmp_path}/.hidden/"
    assert completion(f"{tmp_path}/odd") == f"{tmp_path}/odd"
    assert completion(f"{tmp_path}/no/such") == f"{tmp_path}/no/such"
    assert completion("~no-such-user/x") == "~no-such-user/x"
