"""What `engine watch` watches, and when it says that a new adaptation is worthwhile."""

from __future__ import annotations

import threading
from pathlib import Path

from fixtures.pipeline import ingest_here

from engine.project import ProjectFolder
from engine.store import Artifact
from engine.watching import _Keeper, _watch_folders, watched_folders


def make(tmp_path: Path) -> ProjectFolder:
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(8):
        (documents / f"{number}.txt").write_text(f"The tern rests on pier {number}.")
    return ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": [str(documents)]}})


def test_of_a_file_its_folder_is_watched_and_missing_folders_are_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("x")
    sources = [tmp_path / "a" / "x.txt", tmp_path / "a", tmp_path / "missing"]
    assert watched_folders(sources) == [tmp_path / "a"]


def test_drift_is_told_above_the_limit_only(tmp_path: Path) -> None:
    project = make(tmp_path)
    ingest_here(project.path)
    told: list[str] = []
    keeper = _Keeper(project, told.append, None, threading.Event(), threading.Event())
    (tmp_path / "documents" / "new.txt").write_text("The pelican boards.")
    ingest_here(project.path)
    keeper._tell_drift()
    assert told == []  # there is no adapter yet
    store = project.store()
    store.replace_queries([], Artifact("queries", "f", "", 0.0, {}))
    store.close()
    keeper._tell_drift()
    assert told == []
    (tmp_path / "documents" / "0.txt").write_text("The heron moors.")
    ingest_here(project.path)
    keeper._tell_drift()
    assert len(told) == 1
    assert "20 % of the chunks changed" in told[0]
    assert "engine run" in told[0]


def test_what_the_project_writes_is_no_change_where_it_lies_among_its_documents(tmp_path: Path) -> None:
    own = tmp_path / "project"
    (own / "documents").mkdir(parents=True)
    dirty, stop = threading.Event(), threading.Event()
    watcher = threading.Thread(target=_watch_folders, args=([tmp_path], own, dirty, stop))
    watcher.start()
    try:
        while not dirty.wait(0.2):  # until it has begun to watch
            (own / "documents" / "a.txt").write_text("The tern rests.")
        threading.Event().wait(2)
        dirty.clear()
        (own / "project.db").write_text("x")
        (own / "runs").mkdir()
        (own / "run.lock").write_text("x")
        assert not dirty.wait(3)
        (own / "documents" / "b.txt").write_text("The gull waits.")
        assert dirty.wait(20)
    finally:
        stop.set()
        watcher.join()
