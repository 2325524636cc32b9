"""Recognising text in pictures, as the reading process does it: it hands each picture to its parent and gets the text back.

The parent has tesseract at work in a process of its own (`engine.corpus.sandbox.tesseract`): what reads a file starts no program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engine.corpus.readers import clean

Asker = Callable[[bytes], tuple[str, str]]
_asker: Asker | None = None
_seconds, _end = 0.0, float("inf")
_DOTS = 300 / 72  # per point: what tesseract is made for
_MOST_DOTS = 40_000_000  # of one page
MOST_PAGES = 500  # of a file: each may take seconds


def use(asker: Asker | None, seconds: float = float("inf")) -> None:
    """Ask this one from now on in this process, for so many seconds in all; None: nobody is there to recognise anything."""
    global _asker, _seconds, _end
    _asker, _seconds, _end = asker, seconds, time.monotonic() + seconds


def on() -> bool:
    """Whether text can be recognised."""
    return _asker is not None


def text_in(picture: bytes) -> tuple[str, str]:
    """(text, problem): what is written in a picture, its pages parted by form feeds; the problem where that is not known."""
    if time.monotonic() > _end:
        return "", f"OCR of this file has taken {_seconds:,.0f} s, and is given no more (corpus.ocr_seconds)"
    text, problem = _asker(picture) if _asker else ("", "OCR is off")
    return clean(text), problem


def pages_filled(document: Any, texts: Sequence[str]) -> tuple[list[str], str, dict[int, str]]:
    """The texts of a PDF's pages, those without any recognised; what to say of that, which is empty where nothing was; and, by
    its number, why a page without text was not looked at, or could not be. `document` is as pypdfium2 has it.
    """
    unread: dict[int, str] = {}
    pages = [*texts, *[""] * (len(document) - len(texts))]
    empty = [number for number, text in enumerate(pages[: len(document)]) if not any(map(str.isalnum, text))]
    problems: list[str] = []
    filled = 0
    if len(empty) > MOST_PAGES:
        problems.append(f"only {MOST_PAGES} of {len(empty)} pages without text were looked at")
        unread |= dict.fromkeys((number + 1 for number in empty[MOST_PAGES:]), problems[0])
    for done, number in enumerate(empty[:MOST_PAGES]):
        if time.monotonic() > _end:
            problem = text_in(b"")[1]
            left = len(empty) - done
            problems.append(f"{left} of {len(empty)} pages without text were not looked at: {problem}")
            unread |= dict.fromkeys((late + 1 for late in empty[done:]), problem)
            break
        try:
            pages[number], problem = text_in(_drawn(document[number]))
        except (ValueError, RuntimeError) as error:  # of pdfium: the other pages can be drawn all the same
            problem = str(error)
        filled += bool(pages[number].strip())
        problems += [f"page {number + 1}: {problem}"] if problem else []
        unread |= {number + 1: problem} if problem else {}
    told = f"by OCR: {filled} of {len(pages)} page{'' if len(pages) == 1 else 's'}" if filled else ""
    return pages, "; ".join([*filter(None, [told]), *problems[:3]]), dict(sorted(unread.items()))


def _drawn(page: Any) -> bytes:
    """A page as a grey PGM picture."""
    width, height = page.get_size()
    scale = min(_DOTS, (_MOST_DOTS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    try:
        return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(_rows(bitmap))
    finally:
        bitmap.close()
        page.close()


def _rows(bitmap: Any) -> Iterator[bytes]:
    dots = memoryview(bitmap.buffer).cast("B")
    for row in range(bitmap.height):
        yield bytes(dots[row * bitmap.stride : row * bitmap.stride + bitmap.width])
