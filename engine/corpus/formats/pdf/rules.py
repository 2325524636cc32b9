"""The horizontal rules of a PDF page, which separate the rows of tables."""

from __future__ import annotations

from ctypes import byref, c_float, cast
from typing import Any

from engine.corpus.formats.pdf.calls import read_paths
from engine.corpus.formats.pdf.layout import turn_box
from engine.corpus.formats.pdf.tables import Rules

# Maximum number of objects of a page that are examined.
_MAX_OBJECTS = 1_500
# Maximum number of points of a path that are examined.
_MAX_POINTS = 400
# Minimum number of points of a path that is more than a box.
_MIN_POINTS = 6
# Maximum thickness of a rule in points.
_MAX_RULE = 3.0
# Maximum difference in height of the two ends of a horizontal edge, in points.
_LEVEL = 0.5
# Minimum length of a rule in points.
_MIN_RULE = 12.0


def read_rules(page: Any, quarters: int) -> Rules:
    """Return the horizontal rules of a page in the direction of its text.

    These are lines, thin boxes and the edges of boxes.
    """
    from pypdfium2 import raw

    rules: list[tuple[float, float, float]] = []
    for path, box in read_paths(page, _MAX_OBJECTS):
        left, bottom, right, top = turn_box(box, quarters)
        if right - left < _MIN_RULE:
            continue
        if top - bottom <= _MAX_RULE:
            rules.append((left, right, (bottom + top) / 2))
            continue
        rules += ((left, right, bottom), (left, right, top))
        handle = cast(path, raw.FPDF_PAGEOBJECT)
        count = raw.FPDFPath_CountSegments(handle)
        if _MIN_POINTS < count <= _MAX_POINTS:
            rules += (
                (left, right, height) for height in _find_edge_heights(handle, count, quarters)
            )
    return rules


def _find_edge_heights(path: Any, count: int, quarters: int) -> set[float]:
    """Return the heights of the horizontal edges of a path that has several."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, byref(matrix))
    x = c_float()
    y = c_float()
    heights: set[float] = set()
    before: tuple[float, float] | None = None
    for number in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
        across = matrix.a * x.value + matrix.c * y.value + matrix.e
        up = matrix.b * x.value + matrix.d * y.value + matrix.f
        left, bottom, _, _ = turn_box((across, up, across, up), quarters)
        is_line = raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_LINETO
        if before is not None and is_line:
            left_before, bottom_before = before
            is_level = abs(bottom - bottom_before) < _LEVEL
            if is_level and abs(left - left_before) >= _MIN_RULE:
                heights.add(bottom)
        before = (left, bottom)
    return heights
