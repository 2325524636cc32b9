"""Recognising text in pictures, as the reading process does it: it hands each picture to its parent and gets the text back.

The parent has tesseract at work in a process of its own (`engine.corpus.sandbox.tesseract`): what reads a file starts no program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from engine.corpus.passwords import known
from engine.corpus.readers import clean

Asker = Callable[[bytes], tuple[str, str]]
_asker: Asker | None = None
_DOTS = 300 / 72  # per point: what tesseract is made for
_MOST_DOTS = 40_000_000  # of one page
MOST_PAGES = 500  # of a file: each may take seconds


def use(asker: Asker | None) -> None:
    """Ask this one from now on in this process; None: nobody is there to recognise anything."""
    global _asker
    _asker = asker


def on() -> bool:
    """Whether text can be recognised."""
    return _asker is not None


def text_in(picture: bytes) -> tuple[str, str]:
    """(text, problem): what is written in a picture, its pages parted by form feeds; the problem where that is not known."""
    text, problem = _asker(picture) if _asker else ("", "OCR is off")
    return clean(text), problem


def pages_filled(content: bytes, texts: Sequence[str]) -> tuple[list[str], str]:
    """The texts of a PDF's pages, those without any recognised; and what to say of that, which is empty where nothing was.

    Raises ValueError where the PDF cannot be drawn.
    """
    with closing(_opened(content)) as document:
        pages = [*texts, *[""] * (len(document) - len(texts))]
        empty = [number for number, text in enumerate(pages[: len(document)]) if not any(map(str.isalnum, text))]
        problems: list[str] = []
        filled = 0
        if len(empty) > MOST_PAGES:
            problems.append(f"only {MOST_PAGES} of {len(empty)} pages without text were looked at")
        for number in empty[:MOST_PAGES]:
            try:
                pages[number], problem = text_in(_drawn(document[number]))
            except (ValueError, RuntimeError) as error:  # of pdfium: the other pages can be drawn all the same
                problem = str(error)
            filled += bool(pages[number].strip())
            problems += [f"page {number + 1}: {problem}"] if problem else []
    told = f"by OCR: {filled} of {len(pages)} page{'' if len(pages) == 1 else 's'}" if filled else ""
    return pages, "; ".join([*filter(None, [told]), *problems[:3]])


def _opened(content: bytes) -> Any:
    from pypdfium2 import PdfDocument, PdfiumError

    for password in (None, *known()):
        try:
            return PdfDocument(content, password=password)
        except PdfiumError:
            continue
    raise ValueError("its pages cannot be drawn")


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
