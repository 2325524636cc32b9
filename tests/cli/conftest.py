"""A small real project after `ingest`, `index`, `generate` and `rank`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixtures.pipeline import rank_small_project

from engine.project.folder import ProjectFolder


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
