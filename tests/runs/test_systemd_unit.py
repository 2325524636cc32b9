"""`engine watch` as a systemd user unit: systemd reads back the words that were meant."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import engine_here

from engine.assistants.install import own_command
from engine.project.folder import ProjectFolder
from engine.runs.systemd_unit import quote_word, unit_path, unit_text

HOSTILE = [
    "a b",
    "50%n %h",
    "$HOME ${PATH}",
    'quo"te',
    "back\\slash\\x41",
    "new\nline\ttab",
    "-rf",
    "; reboot",
    "naïve 你好",
    "'",
    "\udcff\udcfe",
    "\u202etxt",
    "é" * 60,
    "[Service]",
    "#x",
    "=",
    "\x7f\x1b[31m",
]


@pytest.mark.posix(reason="systemd comes with Linux")
def test_what_systemd_would_read_otherwise_is_escaped() -> None:
    assert quote_word("plain/path") == '"plain/path"'
    assert quote_word('a "b" %h $x \\n') == '"a \\"b\\" %%h $$x \\\\n"'
    assert quote_word("$x %", variables=False) == '"$x %%"'
    assert quote_word("a\nb\x7f\udcff") == '"a\\x0ab\\x7f\\xff"'


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_adds_a_line_or_leaves_the_folder(tmp_path: Path, name: str) -> None:
    project = ProjectFolder(tmp_path / name)
    text = unit_text(project, [sys.executable, "-m", "engine"])
    assert [line.partition("=")[0] for line in text.splitlines()] == [
        "[Unit]",
        "Description",
        "",
        "[Service]",
        "ExecStart",
        "Restart",
        "RestartSec",
        "Nice",
        "UMask",
        "",
        "[Install]",
        "WantedBy",
    ]
    assert len(unit_path(project).name) < 100
    assert unit_path(project).parent.name == "user"
    assert unit_path(project) != unit_path(ProjectFolder(tmp_path / "elsewhere" / name))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    files = []
    for number, name in enumerate(HOSTILE):
        files.append(tmp_path / f"bmembed-watch-{number}.service")
        files[-1].write_text(
            unit_text(ProjectFolder(tmp_path / name), [sys.executable, "-m", "engine"])
        )
    completed = subprocess.run(
        ["systemd-analyze", "verify", "--user", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in completed.stderr.splitlines() if "bmembed-watch" in line] == []


@pytest.mark.posix(reason="systemd comes with Linux")
def test_the_unit_is_shown_and_written(project: ProjectFolder) -> None:
    name = str(project.path)
    path = unit_path(project)
    completed = engine_here(
        "watch",
        name,
        "--install",
        "--yes",
    )
    assert path.read_text() == unit_text(project, own_command())
    assert [line[1:] for line in completed.stdout.splitlines()[3:]] == path.read_text().splitlines()
    assert path.name in completed.stderr
    again = engine_here("watch", name, "--install")
    assert again.stdout == ""
