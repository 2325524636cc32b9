"""Tests of the first screen know no other test's projects."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_other_projects(own_folders: None) -> None:
    """Every test here has data folders of its own."""
