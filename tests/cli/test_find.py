"""`engine find`: a folder without a project is searched, followed, and forgotten."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
from fixtures.errors import error_of, fails
from fixtures.pipeline import WAIT_SECONDS, engine_here, environment
from fixtures.project_files import mode

from engine.core.errors import CancelledError, InputError
from engine.core.events import StageFinished, read
from engine.export.purge import FOUND, purge
from engine.project.cached import cache_root, find_cached_project, open_cached_project
from engine.project.folder import ProjectFolder, projects_root


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        "platformdirs.user_cache_path", lambda *_args, **_options: tmp_path / "cache"
    )
    return cache_root()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    documents.mkdir()
    for name, text in (
        ("roof.md", "The landlord repairs the roof."),
        ("rent.txt", "The rent is paid monthly."),
    ):
        (documents / name).write_text(text)
    return documents


def found(
    folder: Path,
    words: str,
    *options: str,
) -> list[str]:
    answer = json.loads(engine_here("find", str(folder), words, "--json", *options).stdout)
    return [hit["path"] for hit in answer["hits"]]


def test_a_folder_is_searched_and_followed(folder: Path, cache: Path) -> None:
    assert found(folder, "roof") == ["roof.md"]
    (folder / "tiles.md").write_text("Tiles of the roof.")
    (folder / "roof.md").unlink()
    assert found(folder, "roof") == ["tiles.md"]
    assert found(folder, "monthly", "--type", "md") == []
    (project,) = cache.iterdir()
    newest = sorted(project.glob("runs/*/events.jsonl"))[1]
    (read_files,) = [
        event.summary["files_read"]
        for event, _ in read(newest)
        if isinstance(event, StageFinished) and event.stage == "ingest"
    ]
    assert read_files == 1, "what has not changed is not read again"
    assert mode(project) & 0o077 == 0
    assert (
        engine_here("find", str(folder / "nothing"), "roof", check=False).returncode
        == InputError.exit_code
    )


def test_words_may_stand_before_the_folder(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert engine_here("find", "roof", ".", "--files").stdout.split() == [str(folder / "roof.md")]
    (folder / "roof").mkdir()  # where both are there, the first is the folder
    (folder / "roof" / "flat.md").write_text("A flat roof: see rent.txt.")
    assert engine_here("find", "roof", "rent.txt", "--files").stdout.split() == [
        str(folder / "roof" / "flat.md")
    ]
    for words in ("~nobody-is-called-this", "long " * 99):
        assert engine_here("find", words, ".", "--files", check=False).stdout == ""
    code, error = error_of("find", "nothing", "nowhere")
    assert (code, error["code"]) == (InputError.exit_code, "path-missing")


def test_the_error_of_an_empty_folder_mentions_no_settings(folder: Path, cache: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    code, error = error_of(
        "find",
        str(folder),
        "roof",
    )
    assert (code, error["code"]) == (InputError.exit_code, "no-documents")
    assert str(folder) in error["what"]
    for inner in (str(cache), "project.toml", "corpus.include"):
        assert inner not in json.dumps(error)
    (folder / "picture.qqq").write_bytes(b"\0\1")
    assert "picture.qqq" in error_of("find", str(folder), "roof")[1]["why"]


def test_a_stopped_search_does_not_send_anybody_into_the_cache(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        import_module("engine.cli.searching"), "stoppable", lambda: nullcontext(lambda: True)
    )
    code, error = error_of(
        "find",
        str(folder),
        "roof",
    )
    assert (code, error["code"], error["command"]) == (
        CancelledError.exit_code,
        "cancelled",
        "find",
    )
    assert str(cache) not in json.dumps(error)


def test_what_is_kept_of_a_folder_goes_with_a_purge(
    folder: Path, cache: Path, tmp_path: Path
) -> None:
    open_cached_project(folder)
    engine_here(
        "purge",
        str(folder),
        "--yes",
    )
    assert list(cache.iterdir()) == []
    assert find_cached_project(str(folder)) is None

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = open_cached_project(elsewhere)
    over_all = open_cached_project(tmp_path)  # holds what the project's folder holds
    over_all.path.rename(cache / "renamed")
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": [str(folder)]}})
    removed = [one.path for one in purge(project).removed if one.what == FOUND]
    assert removed == [str(cache / "renamed")]
    assert list(cache.iterdir()) == [kept.path]
    assert len(list(folder.iterdir())) == 2


def test_nothing_is_made_for_a_folder_that_is_not_there(tmp_path: Path, cache: Path) -> None:
    with fails(InputError, "path-missing"):
        open_cached_project(tmp_path / "nothing")
    assert not cache.exists()


def test_a_project_in_place_of_a_folder_is_told_how_to_be_searched(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_args, **_options: tmp_path / "data")
    ProjectFolder.create(projects_root() / "handbook", {})
    commands = [error_of("find", name, "roof")[1]["to_do"] for name in ("handbook", "handbok")]
    assert ["engine search handbook" in one for one in commands] == [True, False]


def test_a_purge_asks_about_what_is_kept_of_the_same_documents(
    folder: Path, tmp_path: Path
) -> None:
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": [str(folder)]}})
    code, error = error_of("purge", str(project.path))
    assert code == 2
    assert str(folder) not in error["why"]
    found(folder, "roof")
    code, error = error_of("purge", str(project.path))
    assert code == 2
    assert str(folder) in error["why"]
    printed = engine_here("purge", str(project.path), "--yes").stdout
    assert "(1 file," in printed
    assert "(1 files" not in printed


@pytest.mark.posix(reason="XDG_CACHE_HOME names no folder on Windows")
def test_two_searches_of_one_folder_wait_for_each_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the cache of real processes
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    command = [
        sys.executable,
        "-m",
        "engine",
        "find",
        str(folder),
        "roof",
        "--files",
    ]
    searches = [
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = [search.communicate(timeout=WAIT_SECONDS)[0].split() for search in searches]
    assert printed == 2 * [[str(folder / "roof.md")]]
    assert len(list((tmp_path / "xdg" / "bmembed" / "find").iterdir())) == 1


def test_a_search_that_waits_too_long_says_so(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        import_module("engine.cli.searching"),
        "BUSY_SECONDS",
        0.1,
    )
    with open_cached_project(folder).locked():
        code, error = error_of(
            "find",
            str(folder),
            "roof",
        )
    assert (code, error["code"], error["command"]) == (4, "project-busy", "find")
    assert str(folder) in error["what"]
    assert str(cache) not in json.dumps(error)
