"""The workflow for Windows and macOS runs what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
NOT_RUN_THERE = {
    *("bmembed-tui", "resiliparse"),  # extras that are compiled, and a peer of a benchmark
    *("ruff", "mypy", "import-linter", "types-psutil"),  # of lint
}


def read_commands() -> list[str]:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "systems.yml").read_text())
    return [step["run"] for step in workflow["jobs"]["portable"]["steps"] if "run" in step]


def test_each_script_exists() -> None:
    scripts = re.findall(r"python (\S+\.py)", "\n".join(read_commands()))
    assert scripts
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


def test_what_tests_need_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[^\w-]", line)[0] for line in project["optional-dependencies"]["dev"]}
    install = next(command for command in read_commands() if "pip install" in command)
    names = {re.split(r"[^\w-]", word.strip('"'))[0] for word in install.split()}
    assert needed - NOT_RUN_THERE - names == set()
