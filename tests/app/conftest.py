"""A small real project, made once by the real engine with a tiny model; tests get copies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.long_training import end_run, lengthen
from fixtures.pipeline import SAMPLE, SETTINGS, copy_documents, engine
from fixtures.tiny_model import build_tiny_model

from engine.project import ProjectFolder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def new_built(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """A project over a few of the sample's documents; nothing was run yet."""
    path = tmp_path_factory.mktemp("new") / "handbook"
    chosen: dict[str, dict[str, Any]] = {**SETTINGS}
    chosen["encoder"] = {"model": str(tiny_model), "device": "cpu", "dtype": "float32"}
    ProjectFolder.create(path, chosen)
    copy_documents(path / "documents", ("incidents", "policies"), 12)
    engine("import-judgments", str(path), str(SAMPLE / "questions.jsonl"))
    return path


@pytest.fixture(scope="session")
def finished_built(new_built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after one whole run."""
    path = Path(shutil.copytree(new_built, tmp_path_factory.mktemp("finished") / "handbook"))
    engine("run", str(path))
    return path


@pytest.fixture
def new_project(new_built: Path, tmp_path: Path) -> Path:
    """A copy of the project that nothing was run for."""
    return Path(shutil.copytree(new_built, tmp_path / "handbook"))


@pytest.fixture
def finished_project(finished_built: Path, tmp_path: Path) -> Path:
    """A copy of the project after a run."""
    return Path(shutil.copytree(finished_built, tmp_path / "handbook"))


@pytest.fixture
def long_project(finished_project: Path) -> Iterator[Path]:
    """A finished project whose next training goes on until it is ended."""
    yield lengthen(finished_project)
    end_run(finished_project)


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    """Tests of single screens start servers that no app closes: they must not pile up, nor be taken for a later test's."""
    before = {child.pid for child in psutil.Process().children()}
    yield
    for child in psutil.Process().children():
        if child.pid not in before and child.status() != psutil.STATUS_ZOMBIE:
            child.kill()
            child.wait(10)
