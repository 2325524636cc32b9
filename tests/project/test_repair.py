"""A damaged or missing database is replaced, and nothing of it is thrown away."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
from fixtures.errors import fails
from fixtures.project_files import files, mode, names, put_file

from engine.core.errors import UsageError
from engine.project.folder import ProjectFolder
from engine.project.store.files import FileRecord
from engine.project.store.schema import SCHEMA_VERSION


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


def restored(project: ProjectFolder) -> bool:
    """Repair a project's damaged database; whether a copy was put in its place."""
    repair = project.repair()
    assert repair is not None
    return repair.restored


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
    repair = project.repair()
    assert repair is not None
    assert (repair.damage.code, repair.restored) == ("database-damaged", True)
    assert files(project) == {"good.md"}
    assert mode(project.path / "project.db") == 0o600
    assert (project.path / "project.db.bak").read_bytes() == backup
    (aside,) = [
        path for path in project.path.glob("project.db.damaged-*") if path.suffix != ".db-wal"
    ]
    assert repair.aside == aside
    assert aside.name in str(repair)
    assert aside.read_bytes() == broken
    assert project.repair() is None
    assert not list(project.path.glob(".tmp-*"))


def test_without_a_backup_the_database_is_created_again(project: ProjectFolder) -> None:
    put_file(project, "a.md")
    damage(project)
    assert not restored(project)
    assert files(project) == set()
    assert len(list(project.path.glob("project.db.damaged-*"))) == 1


@pytest.mark.parametrize("content", [b"", b"garbage" * 999])
def test_a_bad_backup_is_not_taken(project: ProjectFolder, content: bytes) -> None:
    (project.path / "project.db.bak").write_bytes(content)
    damage(project)
    assert not restored(project)
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
    repair = project.repair()
    assert repair is not None
    assert (repair.damage.code, repair.aside, repair.restored) == (
        "database-missing",
        None,
        with_backup,
    )
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
    with fails(UsageError, "database-too-new"):
        project.repair()
    assert names(project.path) == before
