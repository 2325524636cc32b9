"""A small project that is ingested and indexed, for whoever wants queries made of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import stage_here

from engine.project.folder import ProjectFolder
from engine.queries.llm import endpoint_model as endpoint

DOCUMENTS = 6


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six documents of three sentences, one chunk each. Tests copy it; they do not change it."""
    path = tmp_path_factory.mktemp("indexed") / "project"
    chosen = {"corpus": {"paths": ["documents"], "retrain_threshold": 0.0}, "queries": {"consistency_top": 0}}
    ProjectFolder.create(path, chosen)
    (path / "documents").mkdir()
    for number, thing in enumerate(("pump", "crane", "kiln", "lathe", "press", "oven")):
        text = (
            f"The {thing} stands in hall {number} beside the northern gate. It was bought in the year 199{number} from "
            f"Castel & Sons. The oil of the {thing} is changed every {number + 2} months.\n"
        )
        (path / "documents" / f"{thing}.txt").write_text(text)
    for stage in ("ingest", "index"):
        stage_here(path, stage)
    return path


@pytest.fixture
def asked_project(indexed: Path, tmp_path: Path) -> Callable[..., ProjectFolder]:
    """A copy of it with other settings of the queries."""

    def make(**queries: Any) -> ProjectFolder:
        project = ProjectFolder(Path(shutil.copytree(indexed, tmp_path / "project")))
        project.change_settings({f"queries.{key}": value for key, value in queries.items()})
        return project

    return make


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAUSE_SECONDS", 0.001)
