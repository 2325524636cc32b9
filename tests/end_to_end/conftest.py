"""A small real project with a tiny model: fast enough to run the whole pipeline many times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import SETTINGS, copy_project
from fixtures.tiny_model import encoder_settings


@pytest.fixture(scope="session")
def make_project(tiny_model: Path) -> Callable[[Path], Path]:
    def make(path: Path, **sections: dict[str, Any]) -> Path:
        from engine.project.folder import ProjectFolder

        chosen = {
            name: {**SETTINGS.get(name, {}), **sections.get(name, {})}
            for name in {*SETTINGS, *sections}
        }
        chosen["encoder"] = {**encoder_settings(tiny_model), **sections.get("encoder", {})}
        ProjectFolder.create(path, chosen)
        return path

    return make


@pytest.fixture(scope="session")
def finished(finished_built: Path) -> Path:
    """A project after one whole run. Tests copy it; they do not change it."""
    return finished_built


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished project."""
    return copy_project(finished, tmp_path / "project")
