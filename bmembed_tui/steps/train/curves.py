"""Points of a curve made fit for a few dozen columns: without gaps, smoothed, thinned, with round marks on the axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

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
    chosen = []
    for block in _blocks(points, columns):
        low, high = min(block, key=_value), max(block, key=_value)
        chosen += [low] if low == high else sorted((low, high))
    return chosen


def thinned(points: Sequence[Point], columns: int) -> list[Point]:
    """The first point, and the last one of each column."""
    ends = [block[-1] for block in _blocks(points, columns)]
    return [points[0], *ends] if points and points[0] != ends[0] else ends


def _blocks(points: Sequence[Point], columns: int) -> Iterator[Sequence[Point]]:
    """The points, sorted by x, parted into at most `columns` ranges of x of the same width."""
    if not points:
        return
    first, width = points[0][0], (points[-1][0] - points[0][0]) / max(1, columns)
    begin = 0
    for place in range(1, len(points) + 1):
        if place == len(points) or _column(points[place], first, width) != _column(points[begin], first, width):
            yield points[begin:place]
            begin = place


def _column(point: Point, first: float, width: float) -> int:
    return int((point[0] - first) / width) if width > 0 else 0


def _value(point: Point) -> float:
    return point[1]


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers within [low, high], 1, 2 or 5 × 10^n apart: at most `most`, at least two where that can be."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return []
    exponent = math.floor(math.log10((high - low) / max(1, most)))
    for step in (factor * 10.0**power for power in (exponent, exponent + 1, exponent + 2) for factor in (1, 2, 5)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= max(1, most):
            return [min(max(number * step, low), high) for number in range(first, last + 1)]
    return []


def limits(values: Iterable[float]) -> Point:
    """The lowest and the highest value, with a little room where all are the same; (0, 1) without any."""
    known = list(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = 0.0 if high - low > 1e-9 * max(abs(low), abs(high)) else max(abs(low) * 0.05, 1e-3)
    return low - room, high + room
