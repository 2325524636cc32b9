"""`engine purge`: nothing of a project is left but the user's own files, and it is said where
else text may be.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from fixtures.errors import error_of
from fixtures.pipeline import ROOT, engine_here, environment
from fixtures.shown_numbers import numbers
from platformdirs import user_state_path

from engine.core.errors import ProjectBusyError
from engine.core.messages.project import Purged
from engine.core.platforms import SYSTEM
from engine.encoders.graph.shared_graphs import graphs_root
from engine.endpoint.servers import note_server
from engine.export import purge as purging
from engine.export.folder import LOCK, RECORD, remembering
from engine.export.purge import UNFINISHED, measure_purge, purge
from engine.export.take import export_project
from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.usefixtures(
    "own_data_folder"
)  # where no other test's graphs are to be removed


def places_elsewhere(purged: Purged) -> dict[str, str]:
    return {place.path: place.what for place in purged.elsewhere if place.found}


def test_everything_goes_but_the_documents(project: Path) -> None:
    documents = {
        path: path.read_bytes() for path in (project / "documents").rglob("*") if path.is_file()
    }
    sizes = {
        path: path.stat().st_size
        for path in project.rglob("*")
        if path.is_file() and path not in documents
    }
    purged = purge(ProjectFolder.open(project))
    assert sorted(path.name for path in project.iterdir()) == ["documents"]
    assert {
        path: path.read_bytes() for path in (project / "documents").rglob("*") if path.is_file()
    } == documents
    assert purged.kept == ("documents",)
    locks = [path for path in sizes if path.suffix == ".lock" and path.parent == project]
    assert sum(item.files for item in purged.removed) == len(sizes) - len(locks)
    assert {"runs", "cache", "project.db", "project.toml"} <= {item.path for item in purged.removed}
    assert places_elsewhere(purged)[str(project / "documents")] == "your documents"


def test_the_folder_itself_goes_when_nothing_of_the_user_is_in_it(
    project: Path, tmp_path: Path
) -> None:
    (project / "documents").rename(tmp_path / "documents")
    for name in (
        "project.db.bak",
        "project.db.damaged-17",
        "project.db.damaged-17-wal",
        ".tmp-project.toml-12ab34cd",
        ".tmp-exports.json-12ab34cd",
        ".tmp-servers.json-12ab34cd",
    ):
        (project / name).write_text("x")
    (project / "checkpoints" / "abc").mkdir(parents=True)
    purged = purge(ProjectFolder.open(project))
    assert not project.exists()
    assert purged.kept == ()


def test_no_word_of_the_documents_is_left(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    store = folder.store()
    words = {
        word
        for document in store.documents(with_text=True)
        for word in re.findall(rb"\w{9,}", document.text.encode())
    }
    store.close()
    (project / "documents").rename(tmp_path / "documents")
    before = [path for path in project.rglob("*") if path.is_file()]
    assert any(word in path.read_bytes() for path in before for word in words)
    purge(folder)
    assert not [path for path in project.rglob("*") if path.is_file()]


def half_export(place: Path, name: str) -> Path:
    """What a killed export to `name` leaves."""
    half = place / f".{name}.12ab34cd.part"
    half.mkdir(parents=True)
    (half / LOCK).touch()
    (half / "chunks.jsonl").write_text("secret")
    return half


def test_exports_are_named_and_unfinished_ones_removed(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    export_project(
        folder,
        tmp_path / "taken",
        ["chunks"],
    )
    half = half_export(tmp_path, "other")
    (tmp_path / "packed").touch()
    with (
        remembering(folder, tmp_path / "other", ["chunks"]),
        remembering(folder, tmp_path / "stick" / "away", ["chunks"]),
        remembering(folder, tmp_path / "packed", ["bundle"]),
    ):
        pass
    purged = purge(folder)
    assert not half.exists()
    files = 1 if SYSTEM == "windows" else 2  # there, to look at a lock removes its file
    assert [(item.path, item.files) for item in purged.removed if item.what == UNFINISHED] == [
        (str(half), files)
    ]
    assert (tmp_path / "taken" / "chunks.jsonl").is_file()
    named = {
        place.path: (place.why, place.found)
        for place in purged.elsewhere
        if place.what == "an export"
    }
    assert named.pop(str(tmp_path / "taken")) == ("It holds: chunks.", True)
    packed = named.pop(str(tmp_path / "packed"))
    assert packed[1]
    assert not packed[0].startswith("It holds"), "a bundle is the whole project"
    assert {(path, there) for path, (_, there) in named.items()} == {
        (str(tmp_path / "other"), False),
        (str(tmp_path / "stick" / "away"), False),
    }


@pytest.mark.posix(reason="links need a right on Windows")
@pytest.mark.parametrize("way", ["purge", "export"])
def test_a_record_that_names_other_folders_removes_nothing(
    project: Path, tmp_path: Path, way: str
) -> None:
    """Such as a project that came from somebody else, or whose record is damaged.

    An export that goes on stays as well.
    """
    place = tmp_path / "place"
    for name in ("victim", "elsewhere/.nothing.12ab34cd.part", ".nothing.12ab34cd.part", "kept"):
        (place / name).mkdir(parents=True, exist_ok=True)
        (place / name / "own").write_text("mine")
    (place / "kept" / LOCK).touch()
    (place / ".gone.12ab34cd.part").symlink_to(place / "kept")
    busy = half_export(place, "busy")
    names = [
        "victim",
        "nothing",
        "gone",
        "busy",
        "elsewhere/../victim",
        "nul\0",
        "*",
    ]
    (project / RECORD).write_text(
        json.dumps([{"folder": str(place / name), "kinds": ["chunks"]} for name in names])
    )
    before = sorted(place.rglob("*"))
    with FileLock(busy / LOCK):
        if way == "export":
            export_project(
                ProjectFolder.open(project),
                tmp_path / "taken",
                ["chunks"],
            )
        else:
            assert UNFINISHED not in {
                item.what for item in purge(ProjectFolder.open(project)).removed
            }
    assert sorted(place.rglob("*")) == before


def test_the_list_of_recents_forgets_it_alone(project: Path) -> None:
    file = user_state_path("bmembed", appauthor=False) / "recent.json"
    file.parent.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    file.write_text(json.dumps(["/other", str(project), "/third"]))
    purge(ProjectFolder.open(project))
    assert json.loads(file.read_text()) == ["/other", "/third"]
    file.unlink()


def test_places_that_may_still_hold_text_are_listed(project: Path) -> None:
    fault = user_state_path("bmembed", appauthor=False) / "fault-20300101-000000.txt"
    fault.parent.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    fault.write_text("x")
    purged = purge(ProjectFolder.open(project))
    assert str(fault) in places_elsewhere(purged)
    fault.unlink()
    reminders = {place.what: place.why for place in purged.elsewhere if not place.found}
    assert (len(reminders), all(reminders.values())) == (
        9,
        True,
    ), "of what only the user can look for"


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_link_is_removed_and_what_it_leads_to_named(project: Path, tmp_path: Path) -> None:
    (project / "cache").rename(tmp_path / "big-disk")
    (project / "cache").symlink_to(tmp_path / "big-disk")
    purged = purge(ProjectFolder.open(project))
    assert not (project / "cache").is_symlink()
    assert any((tmp_path / "big-disk").iterdir())
    assert str(tmp_path / "big-disk") in places_elsewhere(purged)


def test_a_damaged_project_can_be_purged(project: Path) -> None:
    (project / "project.db").write_bytes(b"no database")
    (project / "project.toml").write_text("[encoder\n")
    (project / RECORD).write_text("{")
    purge(ProjectFolder.open(project))
    assert sorted(path.name for path in project.iterdir()) == ["documents"]


def test_graphs_are_removed_while_no_run_stores_one(
    project: Path, own_data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs_root().mkdir(parents=True)
    excluded = []

    def find_unused(without: object) -> list[Path]:
        with pytest.raises(Timeout):
            FileLock(graphs_root() / ".lock", timeout=0).acquire()
        excluded.append(without)
        return []

    monkeypatch.setattr("engine.export.purge.unused_graphs", find_unused)
    purge(ProjectFolder(project))
    assert excluded == [[project]]


def test_graphs_that_another_process_keeps_locked_stay(
    project: Path, own_data_folder: Path
) -> None:
    graph = graphs_root() / ("0" * 64)
    graph.mkdir(parents=True)
    with FileLock(graphs_root() / ".lock"):
        purge(ProjectFolder(project), wait=0.1)
    assert graph.is_dir()
    assert not (project / "project.toml").exists()


def test_a_purge_that_was_broken_off_can_be_repeated(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = purging.remove

    def breaks(path: Path) -> object:
        if path.name == "project.db":
            raise KeyboardInterrupt
        return real(path)

    monkeypatch.setattr(purging, "remove", breaks)
    with pytest.raises(KeyboardInterrupt):
        purge(ProjectFolder.open(project))
    assert not (project / "runs").exists()
    monkeypatch.setattr(purging, "remove", real)
    purge(ProjectFolder.open(project))
    assert sorted(path.name for path in project.iterdir()) == ["documents"]


def test_locks_of_the_user_stay_and_no_other(project: Path) -> None:
    locks = [path.name for path in project.glob("*.lock")]
    assert set(locks) <= {f"{name}.lock" for name in purging.LOCKS}
    (project / "poetry.lock").write_text("mine")
    purged = purge(ProjectFolder.open(project))
    assert sorted(path.name for path in project.iterdir()) == ["documents", "poetry.lock"]
    assert purged.kept == ("documents", "poetry.lock")


def test_every_lock_that_the_engine_takes_is_known() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "engine").rglob("*.py"))
    named = set(re.findall(r'locked\("(\w+)"', code))
    from engine.datasets.imports import JUDGING
    from engine.lab.study.workspace import FOLDER

    assert {"settings", "stage", "sweep"} <= named
    assert {*named, "run", JUDGING, FOLDER} == set(purging.LOCKS)


@pytest.mark.parametrize("lock", ["run", "stage", "sweep", "watch", "judging", "settings"])
def test_while_something_writes_into_it_nothing_is_removed(project: Path, lock: str) -> None:
    """A stage outlives its killed run for a moment."""
    folder = ProjectFolder.open(project)
    before = sorted(project.rglob("*"))
    with folder.locked(lock), pytest.raises(ProjectBusyError):
        purge(folder, wait=0.2)
    assert sorted(path for path in project.rglob("*") if path.suffix != ".lock") == [
        path for path in before if path.suffix != ".lock"
    ]


def answer(project: Path, reply: bytes) -> tuple[int, str]:
    """`engine purge` on a terminal that answers its question."""
    import pty

    leader, other = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "engine", "purge", str(project)],
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
    )
    os.close(other)
    time.sleep(0.1)
    os.write(leader, reply)
    output, _ = child.communicate(timeout=60)
    os.close(leader)
    return child.returncode, output.decode()


@pytest.mark.posix(reason="Windows has no pseudo-terminals in Python")
def test_the_command_asks(project: Path) -> None:
    refused, error = error_of("purge", str(project))
    assert (refused, error["code"]) == (2, "confirmation-impossible")
    files, _ = measure_purge(ProjectFolder.open(project))
    code, output = answer(project, b"n\n")
    assert code == 130
    assert files in numbers(output)
    assert (project / "project.toml").exists()
    code, output = answer(project, b"y\n")
    assert (code, sorted(path.name for path in project.iterdir())) == (0, ["documents"])
    assert str(project / "documents") in output, "what is left elsewhere"
    code, error = error_of(
        "purge",
        str(project),
        "--yes",
    )
    assert (code, error["code"]) == (2, "project-missing")


def test_json(project: Path) -> None:
    summary = json.loads(engine_here("purge", str(project), "--yes", "--json").stdout)
    assert summary["kept"] == ["documents"]
    assert {"what", "why", "path", "found"} == set(summary["elsewhere"][0])


def test_servers_that_were_sent_text_are_named_and_not_the_one_that_is_set_since(
    project: Path,
) -> None:
    note_server(project, "http://127.0.0.1:8177/v1")
    folder = ProjectFolder.open(project)
    folder.change_settings({"queries.endpoint": "http://10.1.2.3:80/v1"})
    purged = purge(folder)
    assert "http://127.0.0.1:8177/v1" in places_elsewhere(purged)
    assert "http://10.1.2.3:80/v1" not in {place.path for place in purged.elsewhere}
    assert not (project / "servers.json").exists()
