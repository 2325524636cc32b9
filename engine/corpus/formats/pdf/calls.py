"""Functions of PDFium that are called thousands of times, with plain numbers instead of pointers.

This halves the time of a call. A handle is the address of an object of PDFium. Functions that
return a box write it to four addresses that they are given.
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
# The type of an object that is a path.
_PATH_OBJECT = 2
# Sizes of numbers in bytes.
_DOUBLE_SIZE = 8
_FLOAT_SIZE = 4


@cache
def _get_functions() -> dict[str, Callable[..., int]]:
    """Return the functions of PDFium that this module calls, by name."""
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
        address = cast(getattr(raw, name), c_void_p).value or 0
        functions[name] = prototype(address)
    return functions


class TextPage:
    """The text of a page, for fast access; `page` is a text page of pypdfium2."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self._handle = cast(page.raw, c_void_p).value
        self._box = (c_double * 4)()
        self._addresses = tuple(addressof(self._box) + _DOUBLE_SIZE * index for index in range(4))
        self._get_box = _get_functions()["FPDFText_GetCharBox"]
        self._get_object = _get_functions()["FPDFText_GetTextObject"]

    def read_boxes(self, count: int) -> Iterator[tuple[int, float, float, float, float]]:
        """Yield (number, left, bottom, right, top) of all `count` text objects, in points.

        FPDFText_CountRects must have returned `count` just before.
        """
        boxes = (c_double * (4 * count))()
        start = addressof(boxes)
        size = 4 * _DOUBLE_SIZE
        # The addresses of all left sides, tops, right sides and bottoms, in PDFium's order.
        addresses = [
            range(start + side * _DOUBLE_SIZE, start + count * size, size) for side in range(4)
        ]
        get_box = _get_functions()["FPDFText_GetRect"]
        # This calls `get_box` for each object and drops its result; a loop would take longer.
        deque(map(get_box, repeat(self._handle), range(count), *addresses), maxlen=0)
        numbers = boxes[:]
        lefts = numbers[0::4]
        tops = numbers[1::4]
        rights = numbers[2::4]
        bottoms = numbers[3::4]
        return zip(
            range(count),
            lefts,
            bottoms,
            rights,
            tops,
            strict=True,
        )

    def read_box(self, index: int) -> Box:
        """Return the box of a letter by its index."""
        self._get_box(
            self._handle,
            index,
            *self._addresses,
        )
        left, right, bottom, top = self._box
        return left, bottom, right, top

    def find_object(self, index: int) -> int | None:
        """Return the handle of a letter's text object, None for a letter that PDFium adds."""
        return self._get_object(self._handle, index)

    def count_objects(self, end: int) -> int:
        """Return the number of text objects before the letter with the index `end`."""
        if end:
            return _get_functions()["FPDFText_CountRects"](
                self._handle,
                0,
                end,
            )
        return 0


def read_paths(page: Any, max_objects: int) -> list[tuple[int, Box]]:
    """Return (handle, box) of each path among the first `max_objects` objects of a page.

    `page` is one of pypdfium2.
    """
    from pypdfium2 import raw

    handle = cast(page.raw, c_void_p).value
    functions = _get_functions()
    get_object = functions["FPDFPage_GetObject"]
    get_type = functions["FPDFPageObj_GetType"]
    get_bounds = functions["FPDFPageObj_GetBounds"]
    box = (c_float * 4)()
    addresses = tuple(addressof(box) + _FLOAT_SIZE * side for side in range(4))
    count = min(raw.FPDFPage_CountObjects(page.raw), max_objects)
    paths = []
    for index in range(count):
        object_handle = get_object(handle, index)
        if get_type(object_handle) == _PATH_OBJECT and get_bounds(object_handle, *addresses):
            left, bottom, right, top = box
            paths.append((object_handle, (left, bottom, right, top)))
    return paths
