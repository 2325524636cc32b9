"""Functions of PDFium that are called thousands of times, with plain numbers instead of pointers.

This halves the time of a call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from ctypes import PYFUNCTYPE, addressof, c_double, c_float, c_int, c_void_p, cast
from functools import cache, cached_property
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

    kinds: dict[str, tuple[Any, ...]] = {
        "FPDFText_GetRect": (c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p),
        "FPDFText_GetCharBox": (c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p),
        "FPDFText_CountRects": (c_void_p, c_int, c_int),
        "FPDFPageObj_GetType": (c_void_p,),
        "FPDFPageObj_GetBounds": (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
    }
    functions: dict[str, Callable[..., int]] = {
        name: PYFUNCTYPE(c_int, *kind)(cast(getattr(raw, name), c_void_p).value or 0)
        for name, kind in kinds.items()
    }
    for name in ("FPDFPage_GetObject", "FPDFText_GetTextObject"):
        address = cast(getattr(raw, name), c_void_p).value or 0
        functions[name] = PYFUNCTYPE(c_void_p, c_void_p, c_int)(address)
    return functions


class TextPage:
    """A text page of pypdfium2."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self._handle = cast(page.raw, c_void_p).value
        self._box = (c_double * 4)()
        self._places = tuple(addressof(self._box) + _DOUBLE * at for at in range(4))

    def boxes(self, count: int) -> Iterator[tuple[float, float, float, float]]:
        """Yield the boxes of the first text objects.

        FPDFText_CountRects must have returned their number just before.
        """
        boxes = (c_double * (4 * count))()
        begin = addressof(boxes)
        end = begin + 4 * _DOUBLE * count
        places = (range(begin + _DOUBLE * at, end + _DOUBLE * at, 4 * _DOUBLE) for at in range(4))
        ask = _functions()["FPDFText_GetRect"]
        deque(map(ask, repeat(self._handle), range(count), *places), maxlen=0)
        numbers = boxes[:]
        return zip(numbers[0::4], numbers[3::4], numbers[2::4], numbers[1::4], strict=True)

    @cached_property
    def _ask_box(self) -> Callable[..., int]:
        return _functions()["FPDFText_GetCharBox"]

    def box_of(self, index: int) -> tuple[float, float, float, float]:
        """Return the box of a letter."""
        self._ask_box(self._handle, index, *self._places)
        left, right, bottom, top = self._box
        return left, bottom, right, top

    @cached_property
    def _ask_object(self) -> Callable[..., int]:
        return _functions()["FPDFText_GetTextObject"]

    def object_of(self, index: int) -> int | None:
        """Return the handle of a letter's text object, None for a letter that PDFium adds."""
        return self._ask_object(self._handle, index)

    def count_objects(self, end: int) -> int:
        """Return the number of text objects before the letter `end`."""
        if end:
            return _functions()["FPDFText_CountRects"](self._handle, 0, end)
        return 0


def read_paths(page: Any, most: int) -> list[tuple[int, Box]]:
    """Return the paths among a page's first objects, as handles with their boxes."""
    from pypdfium2 import raw

    handle = cast(page.raw, c_void_p).value
    functions = _functions()
    ask = functions["FPDFPageObj_GetBounds"]
    box = (c_float * 4)()
    places = tuple(addressof(box) + _FLOAT * at for at in range(4))
    count = min(raw.FPDFPage_CountObjects(page.raw), most)
    objects = list(map(functions["FPDFPage_GetObject"], repeat(handle), range(count)))
    kinds = map(functions["FPDFPageObj_GetType"], objects)
    paths: list[tuple[int, Box]] = []
    for drawn, kind in zip(objects, kinds, strict=True):
        if kind == _PATH and ask(drawn, *places):
            left, bottom, right, top = box
            paths.append((drawn, (left, bottom, right, top)))
    return paths
