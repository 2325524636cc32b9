"""Pictures, such as scanned letters, and their recognised text.

Each picture is sent to the parent process, which runs tesseract, since a process that reads a file
starts no program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.core.text import format_count
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.text.blocks import Builder
from engine.corpus.text.hyphens import join_split_words, mark_split_words
from engine.corpus.text.metadata import title_from_name

Recogniser = Callable[[bytes], tuple[str, str]]
"""Returns (text, problem) of a picture; see `recognise_text`."""
_recogniser: Recogniser | None = None
# How long OCR of one file may take, and when this time is over, by the monotonic clock.
_max_seconds = 0.0
_deadline = float("inf")
# Dots per point (1/72 inch) of tesseract's best resolution.
_DOTS_PER_POINT = 300 / 72
# Maximum number of dots of one page.
_MAX_DOTS = 40_000_000
# Maximum number of problems that a note names.
_MAX_PROBLEMS = 3
# Fewer letters are taken for a logo or for specks.
_MIN_LETTERS = 8


class RecognisedPages(NamedTuple):
    """What OCR found on the pages of a PDF, by the number of the page, from 1."""

    texts: dict[int, str]
    # For the ledger: how many pages were read and the first problems; empty if there is nothing to
    # say.
    note: str
    # Why pages could not be read.
    unread: dict[int, str]


def use_recogniser(recogniser: Recogniser | None, seconds: float = float("inf")) -> None:
    """Use this recogniser from now on in this process, for at most `seconds` in all.

    None turns OCR off.
    """
    global _recogniser, _max_seconds, _deadline
    _recogniser = recogniser
    _max_seconds = seconds
    _deadline = time.monotonic() + seconds


def is_ocr_on() -> bool:
    """Return whether text can be recognised."""
    return _recogniser is not None


def recognise_text(picture: bytes) -> tuple[str, str]:
    """Return (text, problem) of a picture, with a form feed between the texts of its pages.

    `problem` says why the text could not be read, and is empty if it could.
    """
    if time.monotonic() > _deadline:
        limit = f"{_max_seconds:,.0f} s, its limit (corpus.ocr_seconds)"
        return "", f"OCR of this file has taken {limit}"
    if _recogniser is None:
        return "", "OCR is off"
    text, problem = _recogniser(picture)
    return clean(text), problem


def recognise_pages(document: Any, numbers: Sequence[int]) -> RecognisedPages:
    """Recognise the texts of pages of a PDF, given their numbers.

    `document` is as pypdfium2 has it.
    """
    texts: dict[int, str] = {}
    unread: dict[int, str] = {}
    problems: list[str] = []
    for done, number in enumerate(numbers):
        if time.monotonic() > _deadline:
            # As the time is over, this recognises nothing and only returns the reason.
            _, problem = recognise_text(b"")
            pages_left = f"{len(numbers) - done} of {len(numbers)} pages without text"
            problems.append(f"{pages_left} were not looked at: {problem}")
            unread |= dict.fromkeys(numbers[done:], problem)
            break
        try:
            texts[number], problem = recognise_text(draw_page(document[number - 1]))
        # If PDFium fails on a page, the others can still be drawn.
        except (ValueError, RuntimeError) as error:
            problem = str(error)
        if problem:
            problems.append(f"page {number}: {problem}")
            unread[number] = problem
    notes = problems[:_MAX_PROBLEMS]
    filled = sum(bool(text.strip()) for text in texts.values())
    if filled:
        notes.insert(0, f"by OCR: {filled} of {format_count(len(document), 'page')}")
    return RecognisedPages(
        texts,
        "; ".join(notes),
        dict(sorted(unread.items())),
    )


def draw_page(page: Any) -> bytes:
    """Draw a page of PDFium as a grey PGM picture, and close the page."""
    with closing(page):
        width, height = page.get_size()
        max_scale = (_MAX_DOTS / max(1.0, width * height)) ** 0.5
        scale = min(_DOTS_PER_POINT, max_scale)
        with closing(page.render(scale=scale, grayscale=True)) as bitmap:
            dots = memoryview(bitmap.buffer).cast("B")
            # PDFium pads each row with bytes that are not dots of the picture.
            starts = [row * bitmap.stride for row in range(bitmap.height)]
            rows = [bytes(dots[start : start + bitmap.width]) for start in starts]
            return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(rows)


class PictureReader:
    """A reader of pictures by OCR.

    If a file has several pictures, each is a page of the document.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        content = read_bytes(path, data)
        if not is_ocr_on():
            raise UnreadableFileError(path, "a picture: without OCR it holds no text", "needs OCR")
        text, problem = recognise_text(content)
        if problem:
            reason = f"a picture that OCR could not read: {problem}"
            raise UnreadableFileError(path, reason, "needs OCR")
        if sum(map(str.isalpha, text)) < _MIN_LETTERS:
            raise UnreadableFileError(path, "a picture in which OCR found no text", "empty")
        builder = Builder()
        pages = join_split_words([*map(mark_split_words, text.rstrip("\f\n").split("\f"))])
        for number, page in enumerate(pages, 1):
            if len(pages) > 1:
                builder.page(number, f"page {number}")
            builder.block(page)
        result = builder.done()
        yield ReadDocument(
            title_from_name(path),
            result.text,
            format=path.suffix.lstrip(".").lower(),
            pages=result.pages,
            note="by OCR",
        )


READER = PictureReader()
