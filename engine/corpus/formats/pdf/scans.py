"""Which pages of a PDF are pictures: scans, with no text or with a stamp at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from engine.corpus.formats import LeftOut

_MIN_COVERED = 0.05  # of a page without any text that pictures cover: less is a logo
_WHOLE = 0.7  # of a page with some text that pictures cover: less is an illustration
_ENOUGH = 2000  # characters: a page with as many says more than a stamp
_STAMP = 40  # letters and digits that a scan may have as text: a number, or when it came in
_MAX_PROBLEMS = 3
_MAX_DEPTH = 4  # forms in forms


def is_scan(page: Any, text: str) -> bool:
    """Whether a page, as pypdfium2 has it, shows a picture and says nothing, or next to nothing, as text."""
    if _letters(text[:_ENOUGH]) > _STAMP or (letters := _letters(text)) > _STAMP:
        return False
    return _covered(page) >= (_WHOLE if letters else _MIN_COVERED)


def pages_left_out(unread: Mapping[int, str], pages: int) -> LeftOut:
    """What the ledger is to say of pages that are pictures, of a PDF of `pages` pages in all: `unread` has their numbers, each
    with what prevented OCR, empty where that is off.
    """
    numbers, one = list(unread), len(unread) == 1
    which = f"page{'' if one else 's'} {', '.join(runs(numbers))}"
    reason = f"{len(numbers)} of {pages} page{'' if pages == 1 else 's'} "
    if problems := [*dict.fromkeys(filter(None, unread.values()))][:_MAX_PROBLEMS]:
        reason += f"{'was' if one else 'were'} not read by OCR: {'; '.join(problems)}"
    else:
        reason += f"{'is a picture' if one else 'are pictures'}: without OCR {'it' if one else 'they'} cannot be read"
    return LeftOut(which, "quarantined", "needs OCR", reason)


def runs(numbers: Sequence[int]) -> Iterator[str]:
    """`[1, 2, 3, 7]` → `1-3`, `7`."""
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after != before + 1), numbers[-1]]
    for start, end in zip(starts, ends, strict=True):
        yield f"{start}-{end}" if end > start else f"{start}"


def _covered(page: Any) -> float:
    """The share of a page that its pictures cover; 0 where that is not known."""
    from pypdfium2 import PdfiumError
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    try:
        width, height = page.get_size()
        boxes = [shown.get_bounds() for shown in page.get_objects([FPDF_PAGEOBJ_IMAGE], max_depth=_MAX_DEPTH)]
    except PdfiumError:
        return 0.0
    areas = (max(0.0, right - left) * max(0.0, top - bottom) for left, bottom, right, top in boxes)
    return float(sum(areas) / max(1.0, width * height))


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))
