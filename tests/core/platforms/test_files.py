"""Replacing, removing and naming files."""

from __future__ import annotations

import os
from pathlib import Path

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
    assert files.remove_tree(folder)
    assert files.remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_syncing_a_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    files.sync(tmp_path / "a")
    files.sync(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.sync(tmp_path / "b")


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("con", True),
        ("CON.txt", True),
        ("nul .md", True),
        ("COM1", True),
        ("lpt².pdf", True),
        ("com0", False),
        ("console.txt", False),
        ("a.con", False),
    ],
)
def test_names_that_windows_keeps_for_devices(name: str, *, reserved: bool) -> None:
    assert files.is_reserved(name) == reserved
