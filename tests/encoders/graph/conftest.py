from __future__ import annotations

from pathlib import Path

import pytest

from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import resolve_model


@pytest.fixture(scope="session")
def source(tiny_model: Path) -> FolderSource:
    return FolderSource.of(
        resolve_model(str(tiny_model)),
        "cpu",
        "float32",
    )
