"""Text that stands on its side: on PDF pages that are turned, or in tables that are turned on theirs.

PDFium orders the lines of a page by how it is shown, and where it gives the text of a box it runs lines that stand on their
side into one another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOOKED_AT = 40  # signs of a page
_STRAY = 0.05  # of these
_FEW = 0.05  # of a quarter turn: what is printed aslant is not turned


@contextmanager
def upright(page: Any) -> Iterator[tuple[Any, bool]]:
    """The text page of a page, as pypdfium2 has it, turned so that most of its text is upright, and whether more than a sign or
    two of that stand otherwise than the page was made.
    """
    shown = page.get_rotation()
    text = page.get_textpage()
    try:
        turned = _turned(text)
        wanted = max(turned, key=turned.__getitem__, default=None)
        if wanted not in (None, shown):
            text.close()
            page.set_rotation(wanted)
            text = page.get_textpage()
        yield text, turned.total() - turned[0] > _STRAY * turned.total()
    finally:
        text.close()
        page.set_rotation(shown)


def _turned(text: Any) -> Counter[int]:
    """How many of some signs of a page stand upright once the page is turned by so many degrees clockwise."""
    from pypdfium2 import raw

    count = raw.FPDFText_CountChars(text)
    signs = range(0, count, max(1, count // _LOOKED_AT))
    if not any(raw.FPDFText_GetCharAngle(text, index) for index in signs):  # nearly all pages
        return Counter({0: len(signs)}) if signs else Counter()
    turned: Counter[int] = Counter()
    for index in signs:
        if raw.FPDFText_GetUnicode(text, index) > ord(" "):
            quarters = raw.FPDFText_GetCharAngle(text, index) / (math.pi / 2)
            if abs(quarters - round(quarters)) < _FEW:
                turned[-90 * round(quarters) % 360] += 1
    return turned
