"""A bundle of a finished project, and hands to make hostile ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.quick_password import quick_passwords

from engine.core.messages.project import Bundled
from engine.export.bundle.pack import bundle_project
from engine.project.folder import ProjectFolder

PASSWORD = "correct horse"


@pytest.fixture(scope="session")
def halves(finished_built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundled]:
    """The project whole, its search half, and that with a password, without the model.

    Tests do not change them.
    """
    folder = tmp_path_factory.mktemp("bundles")
    project = ProjectFolder(Path(shutil.copytree(finished_built, folder / "project")))
    half = {"search_only": True}
    kinds: dict[str, dict[str, Any]] = {
        "whole": {},
        "half": half,
        "locked": {**half, "password": PASSWORD},
    }
    with quick_passwords():
        return {
            name: bundle_project(project, folder / f"{name}.bundle", **options)
            for name, options in kinds.items()
        }
