"""A small real project with a tiny model: fast enough to run the whole pipeline many times."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "assets" / "sample"
SETTINGS: dict[str, dict[str, Any]] = {
    "corpus": {"paths": ["documents"], "chunk_tokens": 96, "drift": 0.0},
    "queries": {"max_queries": 300},
    "ranking": {"k": 50},
    "training": {
        "preset": "quick",
        "steps": 12,
        "queries_per_step": 8,
        "eval_every": 6,
        "checkpoint_every": 3,
        "learning_rate": 0.01,
    },
    "evaluation": {"bootstrap_samples": 200, "max_heldout": 60},
}


def environment() -> dict[str, str]:
    """One thread, so that a resumed training is the same training."""
    return dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE", PYTHONPATH=str(ROOT), COLUMNS="200")


def engine(*arguments: str, check: bool = True, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run `engine` as a user would."""
    done = subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=timeout,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


def figures(project: Path) -> dict[str, Any]:
    """The final figures of a project's report, without anything that names a run."""
    found = json.loads(engine("report", str(project), "--json").stdout)
    return {"tables": found["tables"], "served": found["served"]["name"], "reason": found["reason"]}


def copy_documents(target: Path, folders: tuple[str, ...], count: int) -> None:
    """The first `count` documents of each of the sample's folders."""
    for name in folders:
        for source in sorted((SAMPLE / "documents" / name).iterdir())[:count]:
            (target / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name / source.name)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    specification = importlib.util.spec_from_file_location("tiny_model", ROOT / "tests" / "fixtures" / "tiny_model.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    folder: Path = module.build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")
    return folder


@pytest.fixture(scope="session")
def make_project(tiny_model: Path) -> Callable[[Path], Path]:
    def make(path: Path, **sections: dict[str, Any]) -> Path:
        from engine.project import ProjectFolder

        chosen = {name: {**SETTINGS.get(name, {}), **sections.get(name, {})} for name in {*SETTINGS, *sections}}
        chosen["encoder"] = {"model": str(tiny_model), "device": "cpu", "dtype": "float32", **sections.get("encoder", {})}
        ProjectFolder.create(path, chosen)
        return path

    return make


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, make_project: Callable[[Path], Path]) -> Path:
    """A project after one whole run. Tests copy it; they do not change it."""
    path = make_project(tmp_path_factory.mktemp("finished") / "project")
    copy_documents(path / "documents", ("incidents", "policies"), 12)
    engine("import-judgments", str(path), str(SAMPLE / "questions.jsonl"))
    engine("run", str(path))
    return path


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished project."""
    return Path(shutil.copytree(finished, tmp_path / "project"))
