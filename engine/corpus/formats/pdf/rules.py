"""The horizontal rules of a PDF page, which separate the rows of tables."""

from __future__ import annotations

from ctypes import byref, c_float, cast
from typing import Any

from engine.corpus.formats.pdf.calls import read_paths
from engine.corpus.formats.pdf.layout import turn_box
from engine.corpus.formats.pdf.tables import Rule

# Maximum number of objects of a page that are examined.
_MAX_OBJECTS = 1_500
# Maximum number of points of a path that are examined.
_MAX_POINTS = 400
# Minimum number of points of a path that is more than a box.
_MIN_POINTS = 6
# Maximum thickness of a rule in points.
_MAX_THICKNESS = 3.0
# Maximum difference in height of the two ends of a horizontal edge, in points.
_MAX_SLOPE = 0.5
# Minimum length of a rule in points.
_MIN_LENGTH = 12.0


def read_rules(page: Any, quarters: int) -> list[Rule]:
    """Return the rules of a page of pypdfium2 that run in the direction of its text.

    These are lines, thin boxes and the edges of boxes. `quarters` is by how many quarter turns to
    the left the text is turned; the rules are turned back by as many.
    """
    from pypdfium2 import raw

    rules: list[Rule] = []
    for path, box in read_paths(page, _MAX_OBJECTS):
        left, bottom, right, top = turn_box(box, quarters)
        if right - left < _MIN_LENGTH:
            continue
        if top - bottom <= _MAX_THICKNESS:
            rules.append(Rule(left, right, (bottom + top) / 2))
            continue
        heights = {bottom, top}
        handle = cast(path, raw.FPDF_PAGEOBJECT)
        points = raw.FPDFPath_CountSegments(handle)
        if _MIN_POINTS < points <= _MAX_POINTS:
            heights |= _find_edge_heights(handle, points, quarters)
        rules += (Rule(left, right, height) for height in heights)
    return rules


def _find_edge_heights(
    path: Any,
    points: int,
    quarters: int,
) -> set[float]:
    """Return the heights of the horizontal edges of a path of `points` points, such as a grid."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, byref(matrix))
    x = c_float()
    y = c_float()
    heights: set[float] = set()
    # The place of the point before.
    across_before = 0.0
    up_before = 0.0
    for number in range(points):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(
            segment,
            byref(x),
            byref(y),
        )
        page_x = matrix.a * x.value + matrix.c * y.value + matrix.e
        page_y = matrix.b * x.value + matrix.d * y.value + matrix.f
        across, up, _, _ = turn_box((page_x, page_y, page_x, page_y), quarters)
        is_edge = raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_LINETO
        if number > 0 and is_edge:
            is_level = abs(up - up_before) < _MAX_SLOPE
            if is_level and abs(across - across_before) >= _MIN_LENGTH:
                heights.add(up)
        across_before = across
        up_before = up
    return heights
