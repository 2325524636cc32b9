from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import DamagedError, EngineError, ProjectBusyError, ResourceError, SettingsError, UsageError
from engine.project import FOLDERS, ProjectFolder, known_projects, locate, projects_root, write_text
from engine.store import SCHEMA_VERSION, Artifact, FileRecord

ROOT = str(Path(__file__).resolve().parents[1])


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def put_file(project: ProjectFolder, path: str) -> None:
    store = project.store()
    store.put_file(FileRecord("/docs", path, "md", 1, 1, "h", "read", "", "c"))
    store.close()


def files(project: ProjectFolder) -> set[str]:
    store = project.store(check=True)
    found = {path for _, path in store.files()}
    store.close()
    return found


# create and open


def test_a_new_project_is_private(project: ProjectFolder) -> None:
    assert mode(project.path) == 0o700
    assert {mode(project.path / name) for name in FOLDERS} == {0o700}
    assert mode(project.path / "project.toml") == mode(project.path / "project.db") == 0o600
    assert names(project.path) == {*FOLDERS, "project.toml", "project.db"}


def test_create_makes_parents_and_takes_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    assert mode(ProjectFolder.create(tmp_path / "empty", {}).path) == 0o700
    made = ProjectFolder.create(tmp_path / "a" / "b" / "c", {"search": {"top": 4}})
    assert made.settings().search.top == 4
    assert made.name == "c"


def test_create_refuses_a_folder_with_anything_in_it(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("mine")
    with pytest.raises(EngineError, match="not empty"):
        ProjectFolder.create(tmp_path / "letters", {})
    assert names(tmp_path / "letters") == {"mine.txt"}
    with pytest.raises(EngineError, match="not empty"):
        ProjectFolder.create(tmp_path / "letters" / "mine.txt", {})
    with pytest.raises(EngineError, match="cannot be"):
        ProjectFolder.create(tmp_path / "letters" / "mine.txt" / "project", {})


def test_create_refuses_an_existing_project(project: ProjectFolder) -> None:
    put_file(project, "a.md")
    with pytest.raises(EngineError, match="already holds a project"):
        ProjectFolder.create(project.path, {})
    assert files(project) == {"a.md"}


def test_a_bad_setting_makes_no_folder(tmp_path: Path) -> None:
    for chosen in ({"search": {"topp": 3}}, {"corpus": {"paths": ["caf\udce9"]}}):
        with pytest.raises(SettingsError):
            ProjectFolder.create(tmp_path / "new", chosen)  # type: ignore[arg-type]
        assert not (tmp_path / "new").exists()


def test_a_creation_that_fails_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("engine.project.write_text", fail)
        with pytest.raises(ResourceError, match="could not be created"):
            ProjectFolder.create(tmp_path / "new", {})
    assert names(tmp_path / "new") == set()
    assert ProjectFolder.create(tmp_path / "new", {}).settings()


def test_creation_on_a_full_disk(small_disk: Path, disk_filler: Callable[..., None]) -> None:
    (small_disk / "new").mkdir()
    disk_filler(small_disk)
    with pytest.raises(ResourceError):
        ProjectFolder.create(small_disk / "new", {})
    (small_disk / "ballast").unlink()
    assert ProjectFolder.create(small_disk / "new", {}).settings()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "a:b", "what?", "", "~no-such-user-here/x"])
def test_names_that_no_folder_can_have(name: str) -> None:
    with pytest.raises(UsageError):
        ProjectFolder.open(name)
    with pytest.raises(EngineError):
        ProjectFolder.create(locate(name), {})


@pytest.mark.parametrize("name", ["y" * 300, "a\0b"])
def test_paths_that_no_folder_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError):
        ProjectFolder.open(str(tmp_path / name))
    with pytest.raises(EngineError):
        ProjectFolder.create(locate(str(tmp_path / name)), {})


def test_names_lie_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert tmp_path in projects_root().parents
    ProjectFolder.create(locate("handbook"), {})
    ProjectFolder.create(locate("letters"), {})
    try:
        assert [path.name for path in known_projects()] == ["handbook", "letters"]
        assert ProjectFolder.open("handbook").path == projects_root() / "handbook"
        with pytest.raises(UsageError, match="Did you mean 'handbook'"):
            ProjectFolder.open("handbok")
        with pytest.raises(UsageError, match="Did you mean 'letters'"):
            ProjectFolder.open("Letter")
        with pytest.raises(UsageError, match="engine new"):
            ProjectFolder.open("qqqqqqqq")
    finally:
        shutil.rmtree(projects_root())
    assert known_projects() == []


def test_open_by_path(project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("project", "./project", str(tmp_path / "project"), tmp_path / "project"):
        assert ProjectFolder.open(name).path == project.path


def test_sources_are_taken_from_the_project_folder(tmp_path: Path) -> None:
    chosen = {"corpus": {"paths": ["docs", "/abs", "~/home"]}}
    made = ProjectFolder.create(tmp_path / "p", chosen)  # type: ignore[arg-type]
    assert made.sources(made.settings()) == [tmp_path / "p" / "docs", Path("/abs"), Path.home() / "home"]
    write_text(made.path / "project.toml", "[corpus]\npaths = ['~no-such-user-here/x']")
    with pytest.raises(UsageError, match="no-such-user"):
        made.sources(made.settings())


def test_write_text_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_text(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert (path.read_text(), mode(path), names(tmp_path)) == ("one", 0o600, {"run.json"})
    write_text(path, "two")
    assert path.read_text() == "two"


# artifacts


def test_an_artifact_appears_complete(project: ProjectFolder) -> None:
    with project.building("vectors", "abc") as building:
        (building.folder / "sub").mkdir()
        (building.folder / "sub" / "file").write_text("1")
        assert not (project.path / "vectors" / "abc").exists()
    assert building.name == "vectors/abc"
    assert names(project.path / "vectors") == {"abc"}
    assert mode(project.path / "vectors" / "abc") == 0o700
    assert (project.folder_of(Artifact("v", "abc", building.name, 0.0, {})) / "sub" / "file").read_text() == "1"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_build_leaves_nothing_and_the_former_artifact(
    project: ProjectFolder, error: type[BaseException]
) -> None:
    with project.building("vectors", "abc") as building:
        (building.folder / "file").write_text("former")

    def fail() -> None:
        with project.building("vectors", "abc") as half:
            (half.folder / "file").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(project.path / "vectors") == {"abc"}
    assert (project.path / "vectors" / "abc" / "file").read_text() == "former"


def test_building_the_same_again_takes_another_name(project: ProjectFolder) -> None:
    for wanted in ("vectors/abc", "vectors/abc-2", "vectors/abc-3"):
        with project.building("vectors", "abc") as building:
            (building.folder / "file").write_text(wanted)
        assert building.name == wanted
    assert (project.path / "vectors" / "abc" / "file").read_text() == "vectors/abc"


def test_what_a_killed_build_left_is_not_taken_over(project: ProjectFolder) -> None:
    (project.path / "vectors" / ".tmp-abc").mkdir()
    (project.path / "vectors" / ".tmp-abc" / "half").write_text("half")
    with project.building("vectors", "abc") as building:
        assert names(building.folder) == set()


def test_sweep_keeps_what_is_in_use(project: ProjectFolder) -> None:
    for root, name in (
        ("vectors", "a"),
        ("vectors", "b"),
        ("vectors", ".tmp-c"),
        ("adapters", "a"),
        ("runs", "r"),
        ("cache", "x"),
    ):
        (project.path / root / name).mkdir()
    (project.path / "vectors" / "note.txt").write_text("mine")
    project.sweep({"vectors/b"})
    assert names(project.path / "vectors") == {"b", "note.txt"}
    assert names(project.path / "adapters") == set()
    assert names(project.path / "runs") == {"r"}
    assert names(project.path / "cache") == {"x"}


def test_a_missing_artifact_folder_is_damage(project: ProjectFolder) -> None:
    with pytest.raises(DamagedError, match="missing"):
        project.folder_of(Artifact("v", "abc", "vectors/abc", 0.0, {}))


# the lock


@pytest.fixture
def holder(project: ProjectFolder) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the project."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom engine.project import ProjectFolder\n"
        "with ProjectFolder(Path(sys.argv[1])).locked():\n    print('held', flush=True)\n    time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(project.path)], stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=ROOT)
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    yield child
    child.kill()
    child.wait()


def test_the_lock_is_held_against_another_process_and_freed_by_its_death(
    project: ProjectFolder, holder: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(ProjectBusyError, match="holds the project") as caught, project.locked():
        pass
    assert caught.value.exit_code == 4
    assert project.is_running()
    with project.locked("stage"):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not project.is_running()
    with project.locked():
        assert project.is_running()


def test_the_lock_is_released_by_an_exception(project: ProjectFolder) -> None:
    with pytest.raises(ValueError, match="x"), project.locked():
        raise ValueError("x")
    with project.locked():
        assert mode(project.path / "run.lock") == 0o600


def test_asking_whether_a_run_holds_the_project_does_not_stop_one_from_starting(project: ProjectFolder) -> None:
    asking, done = threading.Event(), threading.Event()

    def ask() -> None:
        with project.locked():  # as `is_running` does, but longer
            asking.set()
            done.wait(0.05)

    thread = threading.Thread(target=ask)
    thread.start()
    assert asking.wait(10)
    with project.locked():
        thread.join(10)
    assert not thread.is_alive()


def test_a_folder_that_cannot_be_locked(project: ProjectFolder) -> None:
    (project.path / "run.lock").mkdir()
    with pytest.raises(EngineError, match="cannot be locked"), project.locked():
        pass


# repair


def damage(project: ProjectFolder) -> None:
    data = bytearray((project.path / "project.db").read_bytes())
    data[100:5000] = b"\xff" * 4900
    (project.path / "project.db").write_bytes(data)


def backed_up(project: ProjectFolder) -> None:
    put_file(project, "good.md")
    store = project.store()
    store.backup(project.path / "project.db.bak")
    store.close()
    put_file(project, "later.md")


def test_a_sound_project_needs_no_repair(project: ProjectFolder) -> None:
    put_file(project, "a.md")
    before = names(project.path)
    assert project.repair() is None
    assert (files(project), names(project.path)) == ({"a.md"}, before)


def test_missing_folders_are_made_again(project: ProjectFolder) -> None:
    shutil.rmtree(project.path / "lexical")
    assert project.repair() is None
    assert mode(project.path / "lexical") == 0o700


def test_a_damaged_database_is_replaced_by_the_last_good_copy(project: ProjectFolder) -> None:
    backed_up(project)
    backup = (project.path / "project.db.bak").read_bytes()
    damage(project)
    broken = (project.path / "project.db").read_bytes()
    told = project.repair()
    assert told is not None
    assert "last good run was restored" in told
    assert files(project) == {"good.md"}
    assert mode(project.path / "project.db") == 0o600
    assert (project.path / "project.db.bak").read_bytes() == backup
    (aside,) = [path for path in project.path.glob("project.db.damaged-*") if path.suffix != ".db-wal"]
    assert aside.name in told
    assert aside.read_bytes() == broken
    assert project.repair() is None
    assert not list(project.path.glob(".tmp-*"))


def test_without_a_backup_the_database_is_made_anew(project: ProjectFolder) -> None:
    put_file(project, "a.md")
    damage(project)
    assert "built again" in (project.repair() or "")
    assert files(project) == set()
    assert len(list(project.path.glob("project.db.damaged-*"))) == 1


@pytest.mark.parametrize("content", [b"", b"garbage" * 999])
def test_a_bad_backup_is_not_taken(project: ProjectFolder, content: bytes) -> None:
    (project.path / "project.db.bak").write_bytes(content)
    damage(project)
    assert "built again" in (project.repair() or "")
    assert files(project) == set()
    assert not list(project.path.glob(".tmp-*"))


def test_two_damages_within_a_second_are_both_kept(project: ProjectFolder) -> None:
    for _ in range(3):
        damage(project)
        project.repair()
    assert len(list(project.path.glob("project.db.damaged-*"))) == 3


@pytest.mark.parametrize("with_backup", [True, False])
def test_a_missing_database(project: ProjectFolder, with_backup: bool) -> None:
    if with_backup:
        backed_up(project)
    for path in project.path.glob("project.db*"):
        if path.suffix != ".bak":
            path.unlink()
    told = project.repair() or ""
    assert "is missing" in told
    assert "set aside" not in told
    assert files(project) == ({"good.md"} if with_backup else set())


def test_the_log_of_a_lost_database_does_not_get_into_the_new_one(project: ProjectFolder) -> None:
    backed_up(project)
    store = project.store()
    store.put_file(FileRecord("/docs", "in-the-log.md", "md", 1, 1, "h", "read", "", "c"))
    log = (project.path / "project.db-wal").read_bytes()
    store.close()
    (project.path / "project.db").unlink()
    (project.path / "project.db-wal").write_bytes(log)
    project.repair()
    assert files(project) == {"good.md"}


def test_a_database_of_a_newer_version_is_left_alone(project: ProjectFolder) -> None:
    with sqlite3.connect(project.path / "project.db") as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = names(project.path)
    with pytest.raises(UsageError, match="newer version"):
        project.repair()
    assert names(project.path) == before
