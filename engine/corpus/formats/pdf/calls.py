"""Functions of PDFium that are called thousands of times, with plain numbers instead of pointers.

This halves the time of a call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from ctypes import PYFUNCTYPE, addressof, c_double, c_float, c_int, c_void_p, cast
from functools import cache
from itertools import repeat
from typing import Any

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""
_PATH = 2
_DOUBLE = 8
_FLOAT = 4


@cache
def _functions() -> dict[str, Callable[..., int]]:
    """Return the functions by name; they take a handle, a number, and addresses to write to."""
    from pypdfium2 import raw

    four_numbers = (c_void_p,) * 4
    prototypes: dict[str, Any] = {
        "FPDFText_GetRect": PYFUNCTYPE(c_int, c_void_p, c_int, *four_numbers),
        "FPDFText_GetCharBox": PYFUNCTYPE(c_int, c_void_p, c_int, *four_numbers),
        "FPDFText_CountRects": PYFUNCTYPE(c_int, c_void_p, c_int, c_int),
        "FPDFText_GetTextObject": PYFUNCTYPE(c_void_p, c_void_p, c_int),
        "FPDFPage_GetObject": PYFUNCTYPE(c_void_p, c_void_p, c_int),
        "FPDFPageObj_GetType": PYFUNCTYPE(c_int, c_void_p),
        "FPDFPageObj_GetBounds": PYFUNCTYPE(c_int, c_void_p, *four_numbers),
    }
    functions: dict[str, Callable[..., int]] = {}
    for name, prototype in prototypes.items():
        functions[name] = prototype(cast(getattr(raw, name), c_void_p).value or 0)
    return functions


class TextPage:
    """A text page of pypdfium2."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self._handle = cast(page.raw, c_void_p).value
        self._box = (c_double * 4)()
        self._addresses = tuple(addressof(self._box) + _DOUBLE * at for at in range(4))
        self._get_box = _functions()["FPDFText_GetCharBox"]
        self._get_object = _functions()["FPDFText_GetTextObject"]

    def read_boxes(self, count: int) -> Iterator[tuple[int, float, float, float, float]]:
        """Yield the numbers and the boxes of the first text objects.

        FPDFText_CountRects must have returned their number just before.
        """
        boxes = (c_double * (4 * count))()
        start = addressof(boxes)
        end = start + 4 * _DOUBLE * count
        addresses = [range(start + _DOUBLE * at, end, 4 * _DOUBLE) for at in range(4)]
        get_box = _functions()["FPDFText_GetRect"]
        # The results are in `boxes`; a loop would take longer than PDFium.
        deque(map(get_box, repeat(self._handle), range(count), *addresses), maxlen=0)
        numbers = boxes[:]
        sides = (numbers[0::4], numbers[3::4], numbers[2::4], numbers[1::4])
        return zip(range(count), *sides, strict=True)

    def read_box(self, index: int) -> Box:
        """Return the box of a letter."""
        self._get_box(self._handle, index, *self._addresses)
        left, right, bottom, top = self._box
        return left, bottom, right, top

    def find_object(self, index: int) -> int | None:
        """Return the handle of a letter's text object, None for a letter that PDFium adds."""
        return self._get_object(self._handle, index)

    def count_objects(self, end: int) -> int:
        """Return the number of text objects before the letter `end`."""
        if end:
            return _functions()["FPDFText_CountRects"](self._handle, 0, end)
        return 0


def read_paths(page: Any, most: int) -> list[tuple[int, Box]]:
    """Return the paths among a page's first objects, as handles with their boxes."""
    from pypdfium2 import raw

    handle = cast(page.raw, c_void_p).value
    get_object = _functions()["FPDFPage_GetObject"]
    get_type = _functions()["FPDFPageObj_GetType"]
    get_bounds = _functions()["FPDFPageObj_GetBounds"]
    box = (c_float * 4)()
    addresses = tuple(addressof(box) + _FLOAT * at for at in range(4))
    count = min(raw.FPDFPage_CountObjects(page.raw), most)
    paths: list[tuple[int, Box]] = []
    for index in range(count):
        drawn = get_object(handle, index)
        if get_type(drawn) == _PATH and get_bounds(drawn, *addresses):
            left, bottom, right, top = box
            paths.append((drawn, (left, bottom, right, top)))
    return paths
