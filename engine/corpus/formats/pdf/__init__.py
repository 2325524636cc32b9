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
from engine.corpus.formats.pdf.forms import (
    ANNOTATION_SECONDS,
    PageAnnotations,
    open_form,
    read_drawn_notes,
)
from engine.corpus.formats.pdf.outline import find_headings, read_outline
from engine.corpus.formats.pdf.pdfium import (
    LockedError,
    convert_date,
    is_truncated,
    open_page,
    open_pdf,
    read_attachments,
    read_page_text,
    read_string,
)
from engine.corpus.formats.pdf.xfa import read_dynamic_form
from engine.corpus.text.blocks import find_missing_lines, join_pages
from engine.corpus.text.hyphens import mark_line_ends
from engine.corpus.text.metadata import build_document

# A picture in the source of a PDF, by its type or its compression.
_PICTURE_OBJECT = re.compile(
    rb"/Subtype\s*/Image\b|/Filter\s*\[?\s*/(?:DCT|CCITTFax|JPX|JBIG2)Decode"
)

_ANNOTATIONS = "comments and fields of its form"
_NO_TEXT = "pictures, which without OCR hold no text"
_NO_LETTERS = "their fonts do not say which letters they show, so only OCR can read them"
# Pictures that cover a smaller share of a page without text are taken for a logo.
_MIN_COVERED = 0.05
# Pictures that cover a smaller share of a page with a little text are taken for illustrations.
_MIN_COVERED_BESIDE_TEXT = 0.7
# Maximum number of letters and digits in the text of a scan: a page number, or a stamp of receipt.
_MAX_STAMP = 40
# Maximum number of problems with OCR that a report lists.
_MAX_PROBLEMS = 3
# Maximum depth of form objects, which are drawings that contain others.
_MAX_FORM_DEPTH = 4


class PdfReader:
    """A reader of .pdf files; pages that are pictures are read by OCR if it is on.

    Comments and form fields of a file are read for at most `annotation_seconds`.
    """

    def __init__(self, annotation_seconds: float = ANNOTATION_SECONDS) -> None:
        self._annotation_seconds = annotation_seconds

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        content = read_bytes(path, data)
        with closing(_open(path, content)) as document:
            with open_form(document) as form:
                annotations = PageAnnotations(form, self._annotation_seconds)
                pages = _read_pages(document, annotations)
            if annotations.drawn:
                self._add_drawn_notes(content, annotations, pages)
            failed: UnreadableFileError | None = None
            try:
                yield from _read_text(
                    path,
                    content,
                    document,
                    pages,
                )
            except UnreadableFileError as error:
                failed = error
            yield from report_failed_text(read_attachments(document, annotations.pinned), failed)

    def _add_drawn_notes(
        self, content: bytes, annotations: PageAnnotations, pages: _PdfPages
    ) -> None:
        """Add the lines of stamps and signatures to the annotations of their pages."""
        drawn = read_drawn_notes(
            content,
            annotations.drawn,
            self._annotation_seconds,
        )
        for index, text in drawn:
            if text is None:
                pages.has_all_annotations = False
                break
            number = index + 1
            known = f"{pages.texts.get(number, '')}\n{pages.annotations.get(number, '')}"
            lines = find_missing_lines(known, clean(text).split("\n"))
            if lines:
                former = pages.annotations.get(number, "")
                pages.annotations[number] = f"{former}\n{lines}".strip()


READER = PdfReader()


def _read_text(
    path: Path, content: bytes, document: Any, pages: _PdfPages
) -> Iterator[ReadDocument | LeftOut]:
    """Yield the text of a PDF's pages, and what of them is left out.

    Raises UnreadableFileError if they hold no text.
    """
    form = clean(read_dynamic_form(document))
    if form:
        # The page only says that its viewer cannot show the form.
        pages = _PdfPages(pages.count, texts={1: form})
    texts, note, unread = _recognise_scans(document, pages)
    metadata = _read_metadata(document)
    bookmarks = read_outline(document)
    text = join_pages(texts, pages.annotations)
    if not text.text.strip():
        kind, reason = _explain_no_text(
            content,
            note,
            pages,
            is_scanned=bool(unread),
        )
        raise UnreadableFileError(path, reason, kind)
    headings = find_headings(
        bookmarks,
        text.text,
        text.pages,
    )
    yield replace(
        build_document(path, "pdf", text, metadata),
        headings=headings,
        note=note,
    )
    if pages.damaged:
        yield _report_pages(
            pages.damaged,
            pages.count,
            "damaged",
            "damaged or missing",
        )
    if is_truncated(content):
        reason = "it ends before it should, and something may be missing"
        yield LeftOut(
            "the rest of it",
            "quarantined",
            "damaged",
            reason,
        )
    if not pages.has_all_annotations:
        reason = "there are so many that not all of them were read"
        yield LeftOut(
            _ANNOTATIONS,
            "quarantined",
            "timed out",
            reason,
        )
    garbled = {number: why for number, why in unread.items() if number in pages.garbled}
    scans = {number: why for number, why in unread.items() if number not in garbled}
    for numbers, reason in ((scans, _NO_TEXT), (garbled, _NO_LETTERS)):
        if not numbers:
            continue
        problems = [*dict.fromkeys(filter(None, numbers.values()))][:_MAX_PROBLEMS]
        if problems:
            reason = f"not read by OCR: {'; '.join(problems)}"
        yield _report_pages(
            list(numbers),
            pages.count,
            "needs OCR",
            reason,
        )


def _open(path: Path, content: bytes) -> Any:
    """Open a PDF by pypdfium2. Raises UnreadableFileError if it is locked or damaged."""
    try:
        return open_pdf(content)
    except LockedError as error:
        raise UnreadableFileError(
            path,
            str(error) or explain_lock(),
            "encrypted",
        ) from error
    except ValueError as error:
        raise UnreadableFileError(
            path,
            f"damaged: {error}",
            "damaged",
        ) from error


@dataclass(slots=True)
class _PdfPages:
    """What the pages of a PDF hold, by the number of the page, from 1."""

    # How many pages the PDF has.
    count: int
    # False if there was no time to read all comments and form fields.
    has_all_annotations: bool = True
    # The text of every page up to the last undamaged one, empty for damaged pages.
    texts: dict[int, str] = field(default_factory=dict)
    # Filled form fields and comments, of the pages that have any.
    annotations: dict[int, str] = field(default_factory=dict)
    # The numbers of pages that are pictures.
    scans: list[int] = field(default_factory=list)
    # The numbers of pages whose fonts do not say which letters they show.
    garbled: list[int] = field(default_factory=list)
    # The numbers of damaged pages.
    damaged: list[int] = field(default_factory=list)


def _read_pages(document: Any, annotations: PageAnnotations) -> _PdfPages:
    """Read all pages of a document of pypdfium2."""
    pages = _PdfPages(len(document))
    for number in range(1, pages.count + 1):
        try:
            with open_page(document, number - 1) as page:
                page_text = read_page_text(page)
                text = mark_line_ends(clean(page_text or ""))
                if lines := clean(annotations.read(page, number - 1, text)):
                    pages.annotations[number] = lines
                if page_text is None:
                    pages.garbled.append(number)
                elif _is_scan(page, text):
                    pages.scans.append(number)
        except ValueError:
            pages.damaged.append(number)
        else:
            damaged_before = range(len(pages.texts) + 1, number)
            pages.texts.update(dict.fromkeys(damaged_before, ""))
            pages.texts[number] = text
    pages.has_all_annotations = annotations.is_complete
    return pages


def _recognise_scans(document: Any, pages: _PdfPages) -> tuple[dict[int, str], str, dict[int, str]]:
    """Return (texts by page, note on OCR, problems by unread page), the texts with those from OCR.

    The problem of an unread page is empty if OCR is off.
    """
    if not pictures.is_ocr_on():
        return pages.texts, "", dict.fromkeys(sorted([*pages.scans, *pages.garbled]), "")
    empty = {number for number, text in pages.texts.items() if not any(map(str.isalnum, text))}
    candidates = sorted(empty.union(pages.scans).difference(pages.damaged))
    recognised, note, unread = pictures.recognise_pages(document, candidates)
    texts = dict(pages.texts)
    for number, text in recognised.items():
        # OCR usually reads the text of a stamp, too.
        page_text = texts[number]
        is_repeated = "".join(page_text.split()) in "".join(text.split())
        if is_repeated:
            texts[number] = text
        else:
            texts[number] = f"{page_text.strip()}\n{text}"
    return texts, note, unread


def _read_metadata(document: Any) -> Mapping[str, str]:
    """Return the fields of a document of pypdfium2 that `build_document` knows."""

    def read(key: str) -> str:
        return read_string(partial(document.get_metadata_value, key))

    authors = (author.strip() for author in read("Author").split(";"))
    return {
        "title": read("Title"),
        "authors": ", ".join(filter(None, authors)),
        "keywords": read("Keywords"),
        "created_at": convert_date(read("CreationDate")),
        "modified_at": convert_date(read("ModDate")),
    }


def _report_pages(
    numbers: Sequence[int],
    count: int,
    kind: Kind,
    reason: str,
) -> LeftOut:
    """Report that some of a PDF's `count` pages were not read; `numbers` are theirs, ascending."""
    pages = "pages" if len(numbers) > 1 else "page"
    page_list = f"{pages} {', '.join(_format_ranges(numbers))}"
    all_pages = f"{count} pages" if count > 1 else "1 page"
    return LeftOut(
        page_list,
        "quarantined",
        kind,
        f"{len(numbers)} of {all_pages}: {reason}",
    )


def _explain_no_text(
    content: bytes, note: str, pages: _PdfPages, *, is_scanned: bool
) -> tuple[Kind, str]:
    """Return (kind, reason) for a PDF without text; `note` is the note on OCR, empty for none."""
    damaged = len(pages.damaged)
    if note:
        return "needs OCR", f"OCR found no text in it: {note}"
    if damaged == pages.count:
        return "damaged", "damaged: its pages cannot be read"
    if pages.garbled and not pages.scans and not pictures.is_ocr_on():
        return "needs OCR", _NO_LETTERS
    if is_scanned or _PICTURE_OBJECT.search(content):
        if pictures.is_ocr_on():
            return "needs OCR", "OCR found no text in it"
        return "needs OCR", "its pages are pictures: without OCR they hold no text"
    if damaged:
        which = f"{damaged} of {pages.count} pages"
        return "damaged", f"damaged: {which} cannot be read, and the others hold no text"
    if is_truncated(content):
        return "damaged", "damaged: it ends before it should, and what is there holds no text"
    return "empty", "it holds no text"


def _is_scan(page: Any, text: str) -> bool:
    """Return whether a page of pypdfium2 shows a picture and has next to no text."""
    # The beginning decides for nearly all pages, and counting the whole text would take longer.
    if _count_letters(text[: 4 * _MAX_STAMP]) > _MAX_STAMP:
        return False
    letters = _count_letters(text)
    if letters > _MAX_STAMP:
        return False
    min_covered = _MIN_COVERED_BESIDE_TEXT if letters else _MIN_COVERED
    return _measure_covered(page) >= min_covered


def _format_ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield ascending numbers as ranges: `1-3`, `7` for 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        yield f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"


def _measure_covered(page: Any) -> float:
    """Return the share of a page that its pictures cover, 0 if unknown."""
    from pypdfium2 import PdfiumError
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    try:
        width, height = page.get_size()
        images = page.get_objects([FPDF_PAGEOBJ_IMAGE], max_depth=_MAX_FORM_DEPTH)
        boxes = [image.get_bounds() for image in images]
    except PdfiumError:
        return 0.0
    area = 0.0
    for left, bottom, right, top in boxes:
        area += max(0.0, right - left) * max(0.0, top - bottom)
    return area / max(1.0, float(width * height))


def _count_letters(text: str) -> int:
    """Count letters and digits."""
    return sum(map(str.isalnum, text))
