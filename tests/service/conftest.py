"""A small real project after `ingest`, `index`, `generate` and `rank`: no stage of it needs torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import rank_small_project

from engine.project.folder import ProjectFolder
from engine.service import methods

Call = Callable[..., Any]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests copy it."""
    path = tmp_path_factory.mktemp("built") / "project"
    rank_small_project(path)
    return path


@pytest.fixture
def project(built: Path, tmp_path: Path) -> ProjectFolder:
    """A copy of the built project."""
    return ProjectFolder(Path(shutil.copytree(built, tmp_path / "project")))


@pytest.fixture
def call(project: ProjectFolder) -> Call:
    """Ask the project: the method's name, and its params as keywords."""

    def ask(method: str, **params: Any) -> Any:
        return methods(project)[method](**params)()

    return ask
