"""What `engine watch` watches, and when it says that a new adaptation is worthwhile."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import ingest_here
from fixtures.project_files import create_project

from engine.core.errors import ProjectBusyError
from engine.core.events import StageFinished, StageStarted, Warned
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.runs.watching import (
    Changes,
    ProjectUpdater,
    RepeatedWarnings,
    SourceFolders,
    watch,
    watch_folders,
)

Begin = Callable[[ProjectFolder], threading.Event]


def make(tmp_path: Path) -> ProjectFolder:
    files = {f"{number}.txt": f"The tern rests on pier {number}." for number in range(8)}
    return create_project(tmp_path, files)


def test_the_folder_of_a_file_is_watched_and_missing_folders_are_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "missing").mkdir()
    (tmp_path / "a" / "x.txt").write_text("x")
    sources = [
        str(tmp_path / "a" / "x.txt"),
        str(tmp_path / "a"),
        str(tmp_path / "missing"),
    ]
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": sources}})
    (tmp_path / "missing").rmdir()
    assert list(SourceFolders(project).identities()) == [tmp_path / "a"]


def test_the_changed_share_is_reported_above_the_limit_only(tmp_path: Path) -> None:
    project = make(tmp_path)
    ingest_here(project.path)
    reported: list[str] = []
    updater = ProjectUpdater(
        project,
        reported.append,
        None,
        threading.Event(),
        Changes(),
    )
    (tmp_path / "documents" / "new.txt").write_text("The pelican boards.")
    ingest_here(project.path)
    updater.report_changed_share()
    assert reported == []  # there is no adapter yet
    store = project.store()
    store.replace_queries([], Artifact(QueriesInfo(), "f"))
    store.close()
    updater.report_changed_share()
    assert reported == []
    (tmp_path / "documents" / "0.txt").write_text("The heron moors.")
    ingest_here(project.path)
    updater.report_changed_share()
    assert len(reported) == 1
    assert "20 %" in reported[0]
    assert "engine adapt" in reported[0]


@pytest.fixture
def watching() -> Iterator[Begin]:
    """Begins to watch a project; what is set when something changes."""
    stop = threading.Event()
    threads = []

    def begin(project: ProjectFolder) -> threading.Event:
        dirty = threading.Event()
        threads.append(
            threading.Thread(target=watch_folders, args=(SourceFolders(project), dirty, stop, 0.1))
        )
        threads[-1].start()
        return dirty

    yield begin
    stop.set()
    for thread in threads:
        thread.join()


def quiet(dirty: threading.Event) -> None:
    """Wait until nothing is reported any more."""
    dirty.clear()
    while dirty.wait(1.5):
        dirty.clear()


def noticed(dirty: threading.Event, path: Path) -> bool:
    """Whether a file is noticed.

    It is written again and again: the folder may not be watched yet.
    """
    for _ in range(60):
        path.write_text("The gull waits.")
        if dirty.wait(1):
            return True
    return False


def test_what_the_project_writes_is_no_change_where_it_lies_among_its_documents(
    tmp_path: Path, watching: Begin
) -> None:
    folder = tmp_path / "project"
    project = ProjectFolder.create(folder, {"corpus": {"paths": [str(tmp_path)]}})
    (folder / "reports 2024").mkdir()
    dirty = watching(project)
    while not dirty.wait(0.2):  # until it has begun to watch
        (tmp_path / "a.txt").write_text("The tern rests.")
    quiet(dirty)
    (folder / "project.db-wal").write_text("x")
    (folder / "runs" / "1").mkdir(parents=True)
    (folder / "run.lock").write_text("x")
    (folder / "sweep" / "project").mkdir(parents=True)  # the copy that 'engine sweep' works in
    (folder / "sweep" / "project" / "project.toml").write_text("x")
    assert not dirty.wait(1.5)
    assert noticed(
        dirty, folder / "reports 2024" / "b.txt"
    )  # its name only begins like one of the project's own


def test_a_folder_in_the_place_of_another_is_watched(tmp_path: Path, watching: Begin) -> None:
    project = make(tmp_path)
    documents = tmp_path / "documents"
    dirty = watching(project)
    while not dirty.wait(0.2):
        (documents / "a.txt").write_text("The tern rests.")
    quiet(dirty)
    documents.rename(tmp_path / "documents.old")
    assert dirty.wait(60)
    quiet(dirty)
    documents.mkdir()
    assert dirty.wait(60)
    quiet(dirty)
    assert noticed(dirty, documents / "gull.txt")
    quiet(dirty)
    documents.rename(
        tmp_path / "documents.older"
    )  # at once, as programs that bring folders in line do
    (tmp_path / "documents.old").rename(documents)
    assert dirty.wait(60)
    quiet(dirty)
    assert noticed(dirty, documents / "heron.txt")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf_8_ends_no_watch(tmp_path: Path, watching: Begin) -> None:
    project = make(tmp_path)
    dirty = watching(project)
    quiet(dirty)
    Path(os.fsdecode(bytes(tmp_path / "documents") + b"/caf\xe9.txt")).write_text("The tern waits.")
    assert dirty.wait(60)
    quiet(dirty)
    (tmp_path / "documents" / "later.txt").write_text("The heron moors.")
    assert dirty.wait(60)


def test_folders_that_come_later_are_watched(tmp_path: Path, watching: Begin) -> None:
    project = ProjectFolder.create(
        tmp_path / "project", {"corpus": {"paths": [str(tmp_path / "late")]}}
    )
    dirty = watching(project)
    assert not dirty.wait(1)
    (tmp_path / "late").mkdir()
    assert dirty.wait(60)
    quiet(dirty)
    assert noticed(dirty, tmp_path / "late" / "gull.txt")
    (tmp_path / "other").mkdir()
    project.change_settings({"corpus.paths": [str(tmp_path / "late"), str(tmp_path / "other")]})
    quiet(dirty)
    assert noticed(dirty, tmp_path / "other" / "heron.txt")


def test_settings_that_name_no_folder_end_no_watch(tmp_path: Path, watching: Begin) -> None:
    """Nor does a folder that the system does not show, as on a network drive that has vanished."""
    project = make(tmp_path)
    dirty = watching(project)
    quiet(dirty)
    documents = str(tmp_path / "documents")
    for paths in (["~no-such-user-here/a"], [documents, str(tmp_path / ("x" * 300))]):
        (project.path / "project.toml").write_text(f"[corpus]\npaths = {json.dumps(paths)}\n")
        quiet(dirty)
        assert noticed(dirty, tmp_path / "documents" / "gull.txt")
        quiet(dirty)
    assert SourceFolders(project).identities().keys() == {tmp_path / "documents"}


def test_the_same_problem_is_reported_once(tmp_path: Path) -> None:
    project = make(tmp_path)
    (tmp_path / "documents").rename(tmp_path / "away")
    reported: list[str] = []
    updater = ProjectUpdater(
        project,
        reported.append,
        None,
        threading.Event(),
        Changes(),
    )
    updater.update()
    updater.update()
    assert len(reported) == 1
    assert str(tmp_path / "documents") in reported[0]


def test_a_warning_is_reported_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # where no tesseract is
    project = make(tmp_path)
    reported: list[str] = []
    updater = ProjectUpdater(
        project,
        print,
        lambda event: reported.append(getattr(event, "text", "")),
        threading.Event(),
        Changes(),
    )

    def warned() -> list[str]:
        reported.clear()
        updater.run_stages(("ingest",), lambda: False)
        return [text for text in reported if "corpus.ocr is on" in text]

    project.change_settings({"corpus.ocr": True})
    with_ocr = warned()
    assert len(with_ocr) == 1
    (tmp_path / "documents" / "new.txt").write_text("The pelican boards.")
    assert warned() == []
    project.change_settings({"corpus.ocr": False})
    assert warned() == []
    project.change_settings({"corpus.ocr": True})
    assert warned() == with_ocr


def test_a_warning_of_a_stage_that_was_broken_off_is_not_reported_again() -> None:
    warnings = RepeatedWarnings()
    begun = StageStarted(
        stage="embed",
        fingerprint="",
        reason="",
    )
    ended = StageFinished(
        stage="embed",
        seconds=1,
        peak_memory_mb=1,
        summary={},
    )
    slow = Warned(stage="embed", text="slow")
    cut = Warned(stage="embed", text="cut")
    repaired = Warned(stage="run", text="repaired")
    foreign, other = (
        Warned(stage="run", text=text, code="languages-unknown")
        for text in ("60 % German", "70 % German")
    )
    runs = [
        begun,
        slow,
        begun,
        slow,
        cut,
        cut,
        ended,
        begun,
        cut,
        ended,
        begun,
        slow,
        ended,
        repaired,
        foreign,
    ]
    runs += [
        repaired,
        begun,
        foreign,
        ended,
        other,
    ]
    reported = [event for event in runs if warnings.is_news(event) and isinstance(event, Warned)]
    assert reported == [slow, cut, slow, repaired, foreign, repaired, other]


def test_a_project_is_watched_by_one_process(tmp_path: Path) -> None:
    project = make(tmp_path)
    stop = threading.Event()
    stop.set()
    with (
        project.locked("watch"),
        fails(ProjectBusyError, "project-busy", command="watch") as caught,
    ):
        watch(
            project,
            report=print,
            stop=stop,
        )
    assert f"process {os.getpid()}" in caught.value.what
    watch(
        project,
        report=print,
        stop=stop,
    )


def test_embedding_gives_way_to_newer_changes_but_not_at_once_where_it_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("engine.runs.watching.time.monotonic", lambda: now[0])
    dirty = Changes()
    updater = ProjectUpdater(
        ProjectFolder(Path("p")),
        print,
        None,
        threading.Event(),
        dirty,
    )
    updater.embedded = updater.embedding_since = 1000.0
    assert not updater.is_put_off()
    dirty.set()
    assert updater.is_put_off()  # the last time that all was embedded is not long ago
    now[0] = updater.embedding_since = 1100.0
    assert not updater.is_put_off()  # it is, so this time it gets somewhere
    now[0] = 1129.0
    assert not updater.is_put_off()
    now[0] = 1130.0
    assert updater.is_put_off()  # but it does not keep new documents waiting for all of its time
    dirty.clear()
    assert not updater.is_put_off()


def test_how_long_a_change_took_counts_from_when_it_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(tmp_path)
    now = [1000.0]
    reported = list[str]()
    monkeypatch.setattr("engine.runs.watching.time.monotonic", lambda: now[0])
    dirty = Changes()
    updater = ProjectUpdater(
        project,
        reported.append,
        None,
        threading.Event(),
        dirty,
    )
    runs: Iterator[dict[str, dict[str, int]] | None] = iter(
        [None, {"ingest": {"files_read": 1}}, {}, {"ingest": {"files_read": 2}}, {}]
    )

    def run(stages: object, should_stop: object) -> dict[str, dict[str, int]]:
        outcome = next(runs)
        if outcome is None:
            raise ProjectBusyError("busy", "a run", "wait")
        return outcome

    monkeypatch.setattr(updater, "run_stages", run)
    monkeypatch.setattr(
        updater,
        "report_changed_share",
        lambda: None,
    )
    dirty.set()
    now[0] = 1004.0
    dirty.set()  # another one, which waits no longer than the first
    updater.take_changes()
    updater.update()  # a run of the user's own is in the way
    now[0] = 1009.0
    updater.take_changes()
    updater.update()
    (line,) = reported
    assert all(data in line for data in ("1 read", "9.0 s"))
    dirty.set()
    updater.take_changes()
    now[0] = 1011.5
    updater.update()
    (line,) = reported[1:]
    assert all(data in line for data in ("2 read", "2.5 s"))
