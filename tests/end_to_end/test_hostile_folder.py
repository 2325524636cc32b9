"""What lies in the folder the user stands in is not executed; what files are called does not
steer the terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.pipeline import copy_documents, engine_here, environment

pytestmark = pytest.mark.cold  # the folder would be searched for what a fork has loaded
POISONED = (
    "tokenizers",
    "semantic_text_splitter",
    "rich",
    "pydantic",
    "typer",
    "filelock",
    "pathspec",
    "torch",
    "psutil",
    "charset_normalizer",
    "engine_plugin",
)
ESCAPES = "\x1b[2Jgone\x1b]0;title\x07"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of modules each of which leaves a mark when it is imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in POISONED:
        code = (
            f"open({str(tmp_path / 'marks')!r}, 'a').write({name!r} + '\\n')\nraise"
            " SystemExit('poisoned')\n"
        )
        (folder / f"{name}.py").write_text(code)
    return folder


@pytest.fixture
def small(make_project: Callable[..., Path], tmp_path: Path) -> Path:
    project = make_project(tmp_path / "small")
    copy_documents(
        project / "documents",
        ("incidents",),
        3,
    )
    return project


@pytest.mark.parametrize(
    ("how", "trailing"),
    [("module", os.pathsep), ("script", ""), pytest.param("module", "", marks=pytest.mark.slow)],
)
def test_modules_of_the_current_folder_are_not_executed(
    small: Path, hostile: Path, tmp_path: Path, how: str, trailing: str
) -> None:
    script = Path(sys.executable).parent / "engine"
    if how == "script" and not script.exists():
        pytest.skip("the command is not installed")
    if how == "module":
        command = [sys.executable, "-m", "engine"]
    else:
        command = [str(script)]
    env = environment()
    if how == "script":
        env["PYTHONPATH"] = ""
    elif trailing:
        env["PYTHONPATH"] += trailing
    completed = subprocess.run(
        [*command, "ingest", str(small)],
        cwd=hostile,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (tmp_path / "marks").exists(), (tmp_path / "marks").read_text()
    assert completed.returncode == 0, completed.stderr
    assert (
        json.loads(engine_here("status", str(small), "--json").stdout)["counts"]["documents"] == 3
    )


def test_the_repository_itself_may_be_the_current_folder(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[2] / "engine", tmp_path / "copy" / "engine")
    code = (
        "import runpy, sys; sys.argv = ['engine', '--help']; runpy.run_module('engine',"
        " run_name='__main__')"
    )
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    for command in (["-m", "engine", "--help"], ["-c", code]):
        completed = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path / "copy",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr
        assert "import-queries" in completed.stdout


@pytest.mark.posix(reason="names hold no control characters on Windows")
def test_a_files_name_does_not_steer_the_terminal(small: Path) -> None:
    (small / "documents" / f"noise{ESCAPES}.txt").write_bytes(bytes(range(256)) * 8)
    (small / "documents" / f"scan{ESCAPES}.pdf").write_bytes(b"%PDF-1.4")
    (small / "documents" / f"good{ESCAPES}.txt").write_text(
        "The qqqzebra freezer was opened at night."
    )
    messages = engine_here("ingest", str(small)).stderr
    assert "gone" in messages
    engine_here("index", str(small))
    status = engine_here("status", str(small)).stdout
    assert status.count("gone") == 2
    output = engine_here("search", str(small), "qqqzebra", "--mode", "bm25").stdout
    assert "gone" in output
    data = engine_here("status", str(small), "--json").stdout
    assert any(ESCAPES in path for path in json.loads(data)["quarantined"])
    usage = engine_here("status", str(small), ESCAPES, check=False).stderr
    missing = engine_here("status", f"/no/{ESCAPES}", check=False).stderr
    assert "gone" in missing
    for text in (messages, status, output, data, usage, missing):
        assert not {"\x1b", "\x07"} & set(text)
