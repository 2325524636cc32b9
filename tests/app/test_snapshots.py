"""Every screen as a picture, at two sizes, dark and light. After a wanted change: `pytest tests/app/test_snapshots.py
-m "slow or not slow" --snapshot-update`, and look at what changed. The engine's answers are recorded (`fixtures/scripted.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pictures import STORIES, pictures, play_record
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.image import SVGImageSnapshotExtension

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
THEMES = ("bmembed-dark", "bmembed-light")
QUICK = ("home", "documents", "queries", "result")  # at every test; all of them take minutes
REST = tuple(name for name in STORIES if name not in QUICK)


@pytest.fixture
def snap(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SVGImageSnapshotExtension)


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Recorded answers in the engine's place."""
    play_record(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    "names", [pytest.param(QUICK, id="quick"), pytest.param(REST, id="rest", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_screen(size: str, theme: str, names: tuple[str, ...], snap: SnapshotAssertion) -> None:
    right: set[str] = set()

    def compare(name: str, svg: str) -> bool:
        if svg == snap(name=name):
            right.add(name)
        return name in right

    pictures(names, SIZES[size], theme, compare)
    assert not set(names) - right
