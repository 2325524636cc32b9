"""While a new project is read, what has been read can be searched."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.pipeline import ingest_here, stages_in_this_process
from fixtures.project_files import create_project

from engine.api import Project
from engine.core.events import Event, EventLog, Progress, StageFinished, Warned
from engine.corpus.ingest import ingest
from engine.corpus.ingest.ingest import ReadingPace
from engine.corpus.ingest.stage import IngestStage
from engine.corpus.sandbox.pool import Pool
from engine.project.folder import ProjectFolder
from engine.project.stage import KEYWORD_STAGES, ProjectSnapshot
from engine.runs.pipeline import run, stage_status

LARGE = "The pelican boards at dawn. " * 4_000


# As if the time of the first reading were always over.
AT_ONCE = ReadingPace(
    first_seconds=0.0,
    files_per_transaction=2,
    seconds_per_transaction=1000.0,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A project of nine small files, and one that counts as large."""
    monkeypatch.setattr(
        ingest,
        "LARGE_FILE",
        len(LARGE),
    )
    small = {f"b{n}.txt": f"The tern number{n} rests on the pier." for n in range(9)}
    return create_project(tmp_path, {"a.txt": LARGE, **small})


def paths_as_read(project: ProjectFolder) -> list[str]:
    with closing(project.store()) as store:
        return [one.path for one in sorted(store.documents(), key=lambda one: one.id)]


def run_words(
    project: ProjectFolder, *stages: str, pace: ReadingPace = AT_ONCE
) -> list[tuple[str, int, int]]:
    """(stage, files left, hits for a word of the nine small files) at each end of a stage."""
    seen = []

    def note(event: Event) -> None:
        if isinstance(event, StageFinished):
            if event.stage == "index":
                hits = Project(project).search("tern", mode="bm25", top=20).hits
            else:
                hits = []
            seen.append((event.stage, event.summary.get("files_left", 0), len(hits)))

    with stages_in_this_process({"ingest": IngestStage(pace)}):
        run(
            project,
            stages=stages or KEYWORD_STAGES,
            on_event=note,
        )
    return seen


def test_each_time_that_the_chunks_have_doubled_they_are_indexed_and_the_large_file_comes_last(
    project: ProjectFolder,
) -> None:
    assert run_words(project) == [
        ("ingest", 8, 0),
        ("index", 0, 2),
        ("ingest", 6, 0),
        ("index", 0, 4),
        ("ingest", 2, 0),
        ("index", 0, 8),
        ("ingest", 0, 0),
        ("index", 0, 9),
    ]
    assert paths_as_read(project) == [*(f"b{number}.txt" for number in range(9)), "a.txt"]


def test_a_file_that_takes_long_does_not_keep_what_was_read_from_search(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = ingest.hash_file
    close = Pool.close
    waited = list[Path]()
    closing = threading.Event()

    def hash_file(path: Path) -> str:
        if path.name == "a.txt" and not waited:
            waited.append(path)
            assert closing.wait(100)
        return hashed(path)

    def note(pool: Pool) -> None:
        closing.set()
        close(pool)

    monkeypatch.setattr(ingest, "hash_file", hash_file)
    monkeypatch.setattr(Pool, "close", note)
    first, then, *_, last = run_words(project, pace=ReadingPace(first_seconds=0.0))
    assert first[1] >= 1
    assert then == ("index", 0, 10 - first[1])
    assert last == ("index", 0, 9)


def test_a_run_that_is_stopped_in_between_is_not_up_to_date_and_goes_on(
    project: ProjectFolder,
) -> None:
    summary, _ = ingest_here(project.path, pace=AT_ONCE)
    assert (summary["files_read"], summary["files_left"]) == (2, 8)
    with closing(project.store()) as store:
        status = stage_status(ProjectSnapshot(project, project.settings(), store), "ingest")
    assert (status.state, status.reason[:1]) == ("stale", "8")
    assert run_words(project, "ingest")[-1] == ("ingest", 0, 0)
    assert run_words(project) == [("ingest", 0, 0), ("index", 0, 9)]
    with closing(project.store()) as store:
        assert (
            stage_status(ProjectSnapshot(project, project.settings(), store), "ingest").state
            == "done"
        )


def test_what_is_added_to_a_project_that_can_be_searched_is_read_at_once(
    project: ProjectFolder,
) -> None:
    assert run_words(project)[-1] == ("index", 0, 9)
    for number in range(9):
        (project.path.parent / "documents" / f"c{number}.txt").write_text(
            f"The tern number{number} flies at noon."
        )
    assert run_words(project) == [("ingest", 0, 0), ("index", 0, 18)]


def test_a_reading_in_rounds_names_unread_files_and_other_warnings_once(
    project: ProjectFolder,
) -> None:
    project.change_settings({"corpus.chunk_tokens": 512, "encoder.max_tokens": 128})
    for number in range(9):
        (project.path.parent / "documents" / f"a{number}.txt").write_text(" ")
    warned = list[str]()
    rounds = 0

    def note(event: Event) -> None:
        nonlocal rounds
        rounds += isinstance(event, StageFinished) and event.stage == "ingest"
        if isinstance(event, Warned) and event.stage == "ingest":
            warned.append(event.text)

    with stages_in_this_process({"ingest": IngestStage(replace(AT_ONCE, max_named=3))}):
        run(
            project,
            stages=KEYWORD_STAGES,
            on_event=note,
        )
    assert rounds > 2
    assert (
        len(warned) == len(set(warned)) == 5
    )  # one of the encoder, three files, and that there are more
    assert [text.split()[0] for text in warned if ".txt" in text] == ["a0.txt", "a1.txt", "a2.txt"]
    assert warned[-1].startswith("6 ")


def test_the_file_that_takes_long_is_named(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = ingest.hash_file
    named = threading.Event()
    files = list[str]()

    def hash_file(path: Path) -> str:
        assert path.name != "a.txt" or named.wait(100)
        return hashed(path)

    def note(event: Event) -> None:
        if isinstance(event, Progress) and event.item:
            files.append(event.item)
            if event.item == "a.txt":
                named.set()

    monkeypatch.setattr(ingest, "hash_file", hash_file)
    seen = EventLog.__call__
    monkeypatch.setattr(
        EventLog,
        "__call__",
        lambda log, event: (note(event), seen(log, event))[1],
    )
    pace = ReadingPace(slow_seconds=0.3, seconds_per_transaction=0.0)
    with stages_in_this_process({"ingest": IngestStage(pace)}):
        run(project, stages=["ingest"])
    assert "a.txt" in files
