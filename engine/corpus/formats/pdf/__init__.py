"""PDF files: the text of their pages, from PDFium, and which pages are scans.

Scans are pictures with no text, or with a stamp at most. This runs only in a sandboxed child
process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.core.characters import clean
from engine.core.records import Kind, ReadDocument
from engine.corpus.formats import (
    Finding,
    LeftOut,
    UnreadableFileError,
    pictures,
    read_bytes,
    report_failed_text,
)
from engine.corpus.formats.locked import explain_lock
from engine.corpus.formats.pdf.forms import PageAnnotations, open_form
from engine.corpus.formats.pdf.outline import find_headings, read_outline
from engine.corpus.formats.pdf.pdfium import (
    LockedError,
    convert_date,
    is_cut,
    open_page,
    open_pdf,
    read_attachments,
    read_page_text,
    read_string,
)
from engine.corpus.text.blocks import from_pages
from engine.corpus.text.hyphens import with_breaks
from engine.corpus.text.metadata import document_of

_PICTURE = re.compile(rb"/Subtype\s*/Image\b|/Filter\s*\[?\s*/(?:DCT|CCITTFax|JPX|JBIG2)Decode")

_NOTES = "comments and fields of its form"
# Pictures that cover less of a page without any text are a logo.
_MIN_COVERED = 0.05
# Pictures that cover less of a page with some text are an illustration.
_WHOLE = 0.7
# Maximum number of letters and digits in the text of a scan: a number, or a date of receipt.
_STAMP = 40
_MAX_PROBLEMS = 3
# Maximum depth of forms in forms.
_MAX_DEPTH = 4


class PdfReader:
    """A reader of the text of PDF pages, with OCR, if on, for those that are pictures."""

    formats = frozenset({"pdf"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        content = read_bytes(path, data)
        with closing(_open(path, content)) as document:
            with open_form(document) as form:
                notes = PageAnnotations(form)
                pages = _read_pages(document, notes)
            failed: UnreadableFileError | None = None
            try:
                yield from _read_text(path, content, document, pages)
            except UnreadableFileError as error:
                failed = error
            yield from report_failed_text(read_attachments(document, notes.pinned), failed)


READER = PdfReader()


def _read_text(
    path: Path, content: bytes, document: Any, pages: _Pages
) -> Iterator[ReadDocument | LeftOut]:
    """Yield the text of a PDF's pages, and what of them is left out.

    Raises UnreadableFileError if they hold no text.
    """
    texts, note, unread = _recognise_scans(document, pages)
    metadata = _read_metadata(document)
    bookmarks = read_outline(document)
    text = from_pages(texts, pages.annotations)
    if not text.text.strip():
        raise _explain_no_text(
            path, content, note, pages.count, damaged=pages.damaged, scanned=bool(unread)
        )
    headings = find_headings(bookmarks, text.text, text.pages)
    yield replace(document_of(path, "pdf", text, metadata), headings=headings, note=note)
    if pages.damaged:
        yield _report_pages(pages.damaged, pages.count, "damaged", "damaged or missing")
    if is_cut(content):
        why = "it ends before it should, and something may be missing"
        yield LeftOut("the rest of it", "quarantined", "damaged", why)
    if not pages.whole:
        yield LeftOut(
            _NOTES, "quarantined", "timed out", "there are so many that not all of them were read"
        )
    if unread:
        problems = [*dict.fromkeys(filter(None, unread.values()))][:_MAX_PROBLEMS]
        if problems:
            why = f"not read by OCR: {'; '.join(problems)}"
        else:
            why = "pictures, which without OCR hold no text"
        yield _report_pages(list(unread), pages.count, "needs OCR", why)


def _open(path: Path, content: bytes) -> Any:
    try:
        return open_pdf(content)
    except LockedError as error:
        raise UnreadableFileError(path, str(error) or explain_lock(), "encrypted") from error
    except ValueError as error:
        raise UnreadableFileError(path, f"damaged: {error}", "damaged") from error


@dataclass(slots=True)
class _Pages:
    """The pages of a PDF by number.

    `texts` are those of all pages up to the last sound one, empty for damaged pages, and
    `annotations` their filled fields and comments. `scans` are the pages that are pictures, and
    `damaged` those that are damaged. `count` counts all pages; `whole` tells that all annotations
    were read.
    """

    count: int
    whole: bool = True
    texts: dict[int, str] = field(default_factory=dict)
    annotations: dict[int, str] = field(default_factory=dict)
    scans: list[int] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)


def _read_pages(document: Any, notes: PageAnnotations) -> _Pages:
    found = _Pages(len(document))
    for number in range(1, found.count + 1):
        try:
            with open_page(document, number - 1) as page:
                text = with_breaks(clean(read_page_text(page)))
                if more := clean(notes.of(page, number - 1, text)):
                    found.annotations[number] = more
                if is_scan(page, text):
                    found.scans.append(number)
        except ValueError:
            found.damaged.append(number)
        else:
            found.texts.update(dict.fromkeys(range(len(found.texts) + 1, number), ""))
            found.texts[number] = text
    found.whole = notes.whole
    return found


def _recognise_scans(document: Any, found: _Pages) -> tuple[dict[int, str], str, dict[int, str]]:
    """Return the pages with recognised text, a note on it, and why pictures were left unread."""
    if not pictures.is_ocr_on():
        return found.texts, "", dict.fromkeys(found.scans, "")
    silent = {number for number, text in found.texts.items() if not any(map(str.isalnum, text))}
    asked = sorted(silent.union(found.scans).difference(found.damaged))
    recognised, note, unread = pictures.recognise_pages(document, asked)
    filled = dict(found.texts)
    for number, text in recognised.items():
        own = filled[number]
        filled[number] = text if _is_within(own, text) else f"{own.strip()}\n{text}"
    return filled, note, unread


def _is_within(own: str, text: str) -> bool:
    return "".join(own.split()) in "".join(text.split())


def _read_metadata(document: Any) -> Mapping[str, str]:
    title, author, keywords, created, modified = (
        read_string(partial(document.get_metadata_value, key))
        for key in ("Title", "Author", "Keywords", "CreationDate", "ModDate")
    )
    authors = ", ".join(filter(None, map(str.strip, author.split(";"))))
    return {
        "title": title,
        "authors": authors,
        "keywords": keywords,
        "created_at": convert_date(created),
        "modified_at": convert_date(modified),
    }


def _report_pages(numbers: Sequence[int], pages: int, kind: Kind, why: str) -> LeftOut:
    which = f"page{'s' if numbers[1:] else ''} {', '.join(format_ranges(numbers))}"
    return LeftOut(
        which,
        "quarantined",
        kind,
        f"{len(numbers)} of {pages} page{'s' if pages > 1 else ''}: {why}",
    )


def _explain_no_text(
    path: Path, content: bytes, note: str, pages: int, *, damaged: Sequence[int], scanned: bool
) -> UnreadableFileError:
    reasons: tuple[tuple[bool, Kind, str], ...] = (
        (bool(note), "needs OCR", f"OCR found no text in it: {note}"),
        (len(damaged) == pages, "damaged", "damaged: its pages cannot be read"),
        (
            scanned or _PICTURE.search(content) is not None,
            "needs OCR",
            (
                "OCR found no text in it"
                if pictures.is_ocr_on()
                else "its pages are pictures: without OCR they hold no text"
            ),
        ),
        (
            bool(damaged),
            "damaged",
            f"damaged: {len(damaged)} of {pages} pages cannot be read, and the others hold no text",
        ),
        (
            is_cut(content),
            "damaged",
            "damaged: it ends before it should, and what is there holds no text",
        ),
        (True, "empty", "it holds no text"),
    )
    kind, why = next((kind, why) for holds, kind, why in reasons if holds)
    return UnreadableFileError(path, why, kind)


def is_scan(page: Any, text: str) -> bool:
    """Tell whether a page shows a picture and has next to no text.

    `page` is as pypdfium2 has it.
    """
    if _count_letters(text[: 4 * _STAMP]) > _STAMP or (letters := _count_letters(text)) > _STAMP:
        return False
    return _measure_covered(page) >= (_WHOLE if letters else _MIN_COVERED)


def format_ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield numbers as ranges: `[1, 2, 3, 7]` → `1-3`, `7`."""
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after != before + 1), numbers[-1]]
    for start, end in zip(starts, ends, strict=True):
        yield f"{start}-{end}" if end > start else f"{start}"


def _measure_covered(page: Any) -> float:
    """Return the share of a page that its pictures cover, 0 if unknown."""
    from pypdfium2 import PdfiumError
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    try:
        width, height = page.get_size()
        boxes = [
            shown.get_bounds()
            for shown in page.get_objects([FPDF_PAGEOBJ_IMAGE], max_depth=_MAX_DEPTH)
        ]
    except PdfiumError:
        return 0.0
    areas = (max(0.0, right - left) * max(0.0, top - bottom) for left, bottom, right, top in boxes)
    return float(sum(areas) / max(1.0, width * height))


def _count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))
