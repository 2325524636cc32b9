"""Text for people."""

from __future__ import annotations

import math

import pytest

from engine.core.text import duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.42, "0.4 s"), (42.4, "42 s"), (250, "4 min 10 s"), (754, "12 min"), (11_100, "3 h 05 min"), (math.nan, "?"),
        (-1, "?"),
    ],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
