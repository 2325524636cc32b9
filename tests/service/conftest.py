from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fixtures.ranked_project import built, project

from engine.project.folder import ProjectFolder
from engine.service import methods

__all__ = ["built", "project"]

Call = Callable[..., Any]


@pytest.fixture
def call(project: ProjectFolder) -> Call:
    """Ask the project: the method's name, and its params as keywords."""

    def ask(method: str, **params: Any) -> Any:
        return methods(project)[method](**params)()

    return ask
