"""Every screen as a picture, small in dark and large in light colours.

After a wanted change: `pytest tests/app/test_snapshots.py -m "slow or not slow" --snapshot-update`,
and look at what changed. The engine's answers are recorded (`fixtures/scripted.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pictures import STORIES, draw_pictures, play_record
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.image import SVGImageSnapshotExtension

LOOKS = [
    pytest.param((80, 24), "bmembed-dark", id="80x24-bmembed-dark"),
    pytest.param((120, 40), "bmembed-light", id="120x40-bmembed-light"),
]
QUICK = ("home", "documents", "queries", "result")  # at every test; all of them take minutes
REST = tuple(name for name in STORIES if name not in QUICK)


@pytest.fixture
def snap(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SVGImageSnapshotExtension)


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Recorded answers in the engine's place."""
    play_record(monkeypatch, tmp_path)


@pytest.mark.drawn  # what lies behind a dialog, too
@pytest.mark.posix(reason="the pictures show POSIX paths")
@pytest.mark.parametrize(
    "names",
    [pytest.param(QUICK, id="quick"), pytest.param(REST, id="rest", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_every_screen(
    size: tuple[int, int], theme: str, names: tuple[str, ...], snap: SnapshotAssertion
) -> None:
    right: set[str] = set()

    def compare(name: str, svg: str) -> bool:
        if svg == snap(name=name):
            right.add(name)
        return name in right

    draw_pictures(names, size, theme, compare)
    assert not set(names) - right
