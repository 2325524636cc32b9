"""Only `engine/core/platforms` asks for the system."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint.platforms import SYSTEM_MODULES, find_offenders, find_questions, imports_system

ROOT = Path(__file__).parents[2]


def test_no_module_but_those_of_platforms_asks_for_the_system() -> None:
    assert find_offenders([ROOT / "engine", ROOT / "bmembed_tui"]) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import sys\nif sys.platform == 'win32': pass", [(2, "sys.platform")]),
        ("import os\nname = os.name", [(2, "os.name")]),
        ("def lock():\n    import fcntl", [(2, "import fcntl")]),
        ("import shutil\nshutil.rmtree(folder)", [(2, "shutil.rmtree")]),
        ("import os\nname = os.path", []),
        ("import sys\nsystem = SYSTEM", []),
    ],
)
def test_problems_are_found(source: str, found: list[tuple[int, str]]) -> None:
    assert list(find_questions(source)) == found


def test_only_listed_modules_know_the_name_of_the_system(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "a.py").write_text("from engine.core.platforms import SYSTEM\n")
    (folder / "b.py").write_text("from engine.core.platforms import System\n")
    assert find_offenders([folder]) == [f"{folder / 'a.py'}: SYSTEM"]
    for module in SYSTEM_MODULES:
        assert imports_system((ROOT / module).read_text(encoding="utf-8"))
