"""Points of a curve made fit for a few dozen columns: without gaps, smoothed, thinned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

Point = tuple[float, float]
SPAN_SHARE = 0.05  # of the points that a smoothed one is a mean over
MIN_SPAN = 5.0


def finite(points: Iterable[Point]) -> list[Point]:
    """The points whose value is a finite number, in order."""
    return [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def smoothed(points: Sequence[Point]) -> list[Point]:
    """The running exponential mean over about a twentieth of the points, but at least five; fair from the first on."""
    keep = 1 - 1 / max(MIN_SPAN, SPAN_SHARE * len(points))
    total = weight = 0.0
    curve = []
    for x, y in points:
        total, weight = keep * total + (1 - keep) * y, keep * weight + (1 - keep)
        curve.append((x, total / weight))
    return curve


def envelope(points: Sequence[Point], columns: int) -> list[Point]:
    """The lowest and the highest point of each column, in order: at most two a column, spikes kept."""
    if not points:
        return []
    first, width = points[0][0], (points[-1][0] - points[0][0]) / max(1, columns) or 1.0
    chosen = []
    for _, group in groupby(points, lambda point: int((point[0] - first) / width)):
        block = list(group)
        chosen += sorted({min(block, key=_value), max(block, key=_value)})
    return chosen


def _value(point: Point) -> float:
    return point[1]


def limits(points: Sequence[Point], cells: int) -> Point:
    """The lowest and the highest value, with a little room beside them, which the frame of a drawing would hide."""
    low, high = min(map(_value, points)), max(map(_value, points))
    room = 0.6 * (high - low) / max(1, cells) or max(abs(low) * 0.05, 1e-3)
    return low - room, high + room
