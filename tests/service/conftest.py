"""A small real project after `ingest`, `index`, `generate` and `rank`: no stage of it needs torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import copy_documents, stage_here

from engine.project.folder import ProjectFolder
from engine.runs import pipeline
from engine.service import methods

Call = Callable[..., Any]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents, an empty file, and one of no known format. Tests copy it."""
    path = tmp_path_factory.mktemp("built") / "project"
    chosen: dict[str, dict[str, Any]] = {
        "corpus": {"paths": ["documents"], "chunk_tokens": 96, "retrain_threshold": 0.0},
        "queries": {"max_queries": 60, "consistency_top": 0},
        "ranking": {"k": 20},
    }
    ProjectFolder.create(path, chosen)
    copy_documents(path / "documents", ("incidents", "minutes"), 2)
    (path / "documents" / "empty.txt").write_text("  \n")
    (path / "documents" / "odd.qqq").write_text("what is this")
    for stage in ("ingest", "index", "generate"):
        stage_here(path, stage)
    pipeline.run(ProjectFolder(path), stages=("rank",))  # so that there is a run, too
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
