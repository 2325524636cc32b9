"""Replacing, removing and naming files."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.core.platforms import files


def test_a_file_is_written_without_translation_and_private(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = files.open_private(path, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"a\nb\r\n")
    os.close(descriptor)
    assert path.read_bytes() == b"a\nb\r\n"


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    files.replace(tmp_path / "new", tmp_path / "old")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "new")]


def test_a_folder_with_a_read_only_file_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    folder.mkdir()
    (folder / "a").write_text("a")
    (folder / "a").chmod(0o400)
    assert files.try_remove_tree(folder)
    assert files.try_remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Windows' way, with no pause between attempts."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(files, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(files, "RETRY_SECONDS", 0.1)


def build_folder(path: Path) -> Path:
    path.mkdir()
    (path / "a").write_text("a")
    return path


def refuse_renaming(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Refuse to rename for a number of attempts, as Windows does while a file is open."""
    refusals = iter(range(times))
    rename = Path.rename

    def try_rename(path: Path, target: Path) -> Path:
        if next(refusals, None) is not None:
            raise PermissionError(13, "in use")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", try_rename)


@pytest.mark.usefixtures("windows")
def test_a_folder_in_use_for_a_moment_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_folder(tmp_path / "artifact")
    refuse_renaming(monkeypatch, 3)
    assert files.try_remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("windows")
def test_a_folder_in_use_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_folder(tmp_path / "artifact")
    refuse_renaming(monkeypatch, 1_000_000)
    assert not files.try_remove_tree(folder)
    with pytest.raises(PermissionError):
        files.delete_tree(folder)
    assert [path.name for path in folder.iterdir()] == ["a"]


@pytest.mark.usefixtures("windows")
def test_what_is_left_of_a_folder_is_removed_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = build_folder(tmp_path / "artifact")
    build_folder(tmp_path / ".bmembed-old-of-mine")

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "in use")

    with monkeypatch.context() as context:
        context.setattr(
            files.shutil,
            "rmtree",
            refuse,
        )
        assert files.try_remove_tree(artifact)
    (leftover,) = files.find_leftovers(tmp_path)
    assert (leftover / "a").is_file()
    assert files.try_remove_tree(build_folder(artifact))
    assert [path.name for path in tmp_path.iterdir()] == [".bmembed-old-of-mine"]


def refuse_moments(
    monkeypatch: pytest.MonkeyPatch, method: str, times: int, code: int = errno.EACCES
) -> None:
    """Let a method of Path fail for a number of calls, as Windows does while a file is open."""
    refusals = iter(range(times))
    call = getattr(Path, method)

    def attempt(
        path: Path,
        *arguments: object,
        **options: object,
    ) -> object:
        if next(refusals, None) is not None:
            raise OSError(code, "in use")
        return call(
            path,
            *arguments,
            **options,
        )

    monkeypatch.setattr(Path, method, attempt)


@pytest.mark.usefixtures("windows")
def test_a_file_that_is_being_replaced_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.json").write_bytes(b"{}")
    refuse_moments(monkeypatch, "read_bytes", 3)
    assert files.read_bytes(tmp_path / "run.json") == b"{}"
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "stage.json")


@pytest.mark.usefixtures("windows")
def test_a_file_in_use_is_removed_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.lock"
    path.touch()
    with monkeypatch.context() as context:
        refuse_moments(context, "unlink", 1_000_000)
        assert not files.try_remove_file(path)
        with pytest.raises(PermissionError):
            files.delete_file(path)
    refuse_moments(monkeypatch, "unlink", 3)
    files.delete_file(path)
    assert not path.exists()
    assert files.try_remove_file(path)


@pytest.mark.usefixtures("windows")
def test_a_removed_file_may_be_listed_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").touch()
    refuse_moments(
        monkeypatch,
        "replace",
        3,
        errno.ENOTEMPTY,
    )
    files.replace(tmp_path / "new", tmp_path / "old")
    refuse_moments(
        monkeypatch,
        "replace",
        1,
        errno.ENOSPC,
    )
    with pytest.raises(OSError, match="in use"):
        files.replace(tmp_path / "old", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.usefixtures("windows")
def test_only_an_attempt_tells_how_long_a_path_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.has_room_for_names(tmp_path, 120)
    assert list(tmp_path.iterdir()) == []
    open_file = os.open

    def limit(path: Path, *arguments: int) -> int:
        if len(str(path)) - len(str(tmp_path)) > 100:
            raise FileNotFoundError(errno.ENOENT, "the path is too long")
        return open_file(path, *arguments)

    monkeypatch.setattr(os, "open", limit)
    assert not files.has_room_for_names(tmp_path, 120)
    assert files.has_room_for_names(tmp_path, 100 - len(os.sep))

    def refuse(*_arguments: object) -> int:
        raise PermissionError(errno.EACCES, "read-only share")

    monkeypatch.setattr(os, "open", refuse)
    assert files.has_room_for_names(tmp_path, 120)  # that is no matter of length


@pytest.mark.usefixtures("windows")
def test_only_an_attempt_tells_whether_a_folder_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.is_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not files.is_writable(tmp_path / "missing")

    def refuse(*_arguments: object) -> int:
        raise PermissionError(errno.EACCES, "read-only share")

    monkeypatch.setattr(os, "open", refuse)
    assert not files.is_writable(tmp_path)


def test_removing_what_is_not_there(tmp_path: Path) -> None:
    assert files.try_remove_tree(tmp_path / "artifact")
    files.delete_tree(tmp_path / "artifact")


def test_a_folder_can_be_removed_twice_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    for number in range(40):
        (folder / str(number)).mkdir(parents=True)
        for name in "abcdefghij":
            (folder / str(number) / name).write_text(name)
    with ThreadPoolExecutor(4) as pool:
        removals = [pool.submit(files.delete_tree, folder) for _ in range(4)]
    for removal in removals:
        removal.result()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix(reason="on Windows the folder is renamed first")
def test_a_file_that_another_process_removes_first_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_folder(tmp_path / "artifact")
    unlink = os.unlink

    def be_slower(path: str, *, dir_fd: int | None = None) -> None:
        unlink(path, dir_fd=dir_fd)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", be_slower)
    files.delete_tree(folder)
    assert not folder.exists()


@pytest.mark.posix(reason="on Windows the folder is renamed first")
def test_a_file_that_may_not_be_removed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_folder(tmp_path / "artifact")

    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        raise PermissionError(errno.EACCES, "refused", path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        files.delete_tree(folder)


def test_a_folder_that_cannot_be_removed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "artifact").write_text("a file")
    with pytest.raises(NotADirectoryError):
        files.delete_tree(tmp_path / "artifact")


def test_syncing_a_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    files.sync(tmp_path / "a")
    files.sync(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.sync(tmp_path / "b")


@pytest.mark.usefixtures("windows")
def test_a_document_is_looked_for_by_the_path_that_reaches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_for: list[str] = []

    def note(path: Path) -> bool:
        looked_for.append(str(path))
        return True

    monkeypatch.setattr(Path, "is_file", note)
    assert files.is_document(Path("C:\\docs\\con.txt"))
    assert files.is_document(Path("C:\\docs\\plan.txt"))
    assert looked_for == ["\\\\?\\C:\\docs\\con.txt", "C:\\docs\\plan.txt"]


@pytest.mark.posix(reason="links need a right on Windows")
def test_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder", target_is_directory=True)
    with os.scandir(tmp_path) as entries:
        assert {entry.name: files.is_link(entry) for entry in entries} == {
            "folder": False,
            "link": True,
        }


@pytest.mark.parametrize(("tag", "link"), [(0xA0000003, True), (0x9000301A, False), (0, False)])
@pytest.mark.usefixtures("windows")
def test_junctions_of_windows_are_links(tag: int, *, link: bool) -> None:
    entry = SimpleNamespace(
        is_symlink=lambda: False, stat=lambda **_: SimpleNamespace(st_reparse_tag=tag)
    )
    assert files.is_link(entry) == link


def test_files_that_are_stored_online_only(tmp_path: Path) -> None:
    assert files.is_online_only(SimpleNamespace(st_file_attributes=0x400020))
    assert not files.is_online_only(SimpleNamespace(st_file_attributes=0x20))
    assert files.is_online_only(SimpleNamespace(st_flags=0x40000020))
    assert not files.is_online_only(SimpleNamespace(st_flags=0x20))
    assert not files.is_online_only(tmp_path.stat())
