from __future__ import annotations

from pathlib import Path

import pytest

from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import resolve_model


@pytest.fixture
def own_data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the user's data, where no graph is that another test has left."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def source(tiny_model: Path) -> FolderSource:
    return FolderSource.of(resolve_model(str(tiny_model)), "cpu", "float32")
