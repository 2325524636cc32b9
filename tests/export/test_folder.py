"""Workplaces of exports that were killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock
from fixtures.files_in_use import refuse_as_windows

from engine.core.platforms import SYSTEM
from engine.export.folder import LOCK, workplace


@pytest.fixture
def leftover(tmp_path: Path) -> Path:
    folder = tmp_path / ".made.12345678.part"
    folder.mkdir()
    (folder / LOCK).touch()
    (folder / "half.txt").write_text("a")
    return folder


def test_a_leftover_is_removed_by_the_next_export(leftover: Path, tmp_path: Path) -> None:
    with workplace(tmp_path / "made") as folder:
        assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(SYSTEM != "linux", reason="the emulation reads /proc")
def test_a_leftover_is_removed_where_open_files_cannot_be(leftover: Path, tmp_path: Path) -> None:
    with refuse_as_windows(tmp_path) as emulation, workplace(tmp_path / "made"):
        assert not leftover.exists()
    assert emulation.refusals == []


def test_the_workplace_of_a_running_export_stays(leftover: Path, tmp_path: Path) -> None:
    with FileLock(leftover / LOCK), workplace(tmp_path / "made"):
        assert (leftover / "half.txt").is_file()
