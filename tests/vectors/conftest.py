"""What tests of indexes share."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.vector_indexes import build


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an index of 40 vectors."""
    build(tmp_path / "index", 40)
    return tmp_path / "index"
