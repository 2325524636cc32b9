"""A small real project with a tiny model: fast enough to run the whole pipeline many times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import SAMPLE, SETTINGS, copy_documents, engine
from fixtures.tiny_model import build_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def make_project(tiny_model: Path) -> Callable[[Path], Path]:
    def make(path: Path, **sections: dict[str, Any]) -> Path:
        from engine.project import ProjectFolder

        chosen = {name: {**SETTINGS.get(name, {}), **sections.get(name, {})} for name in {*SETTINGS, *sections}}
        chosen["encoder"] = {
            "model": str(tiny_model),
            "device": "cpu",
            "dtype": "float32",
            **sections.get("encoder", {}),
        }
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
