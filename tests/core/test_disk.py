from __future__ import annotations

from pathlib import Path

import pytest

from engine.core import disk
from engine.core.disk import write_text


def test_a_file_that_another_process_writes_at_the_same_time_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    replace = disk.replace

    def replace_after_another(temporary: Path, target: Path) -> None:
        """Write the whole file anew before this writer puts its own text in place."""
        monkeypatch.setattr(disk, "replace", replace)
        write_text(path, "a longer text of another process")
        replace(temporary, target)

    monkeypatch.setattr(disk, "replace", replace_after_another)
    write_text(path, "mine")
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]
