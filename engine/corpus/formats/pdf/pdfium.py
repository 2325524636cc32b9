"""PDF files as PDFium opens them; this runs only in a sandboxed child process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

from engine.core.characters import clean
from engine.corpus.formats import LeftOut, Member
from engine.corpus.formats.locked import known_passwords
from engine.corpus.formats.pdf.glyph_numbers import (
    decode_controls,
    decode_letters,
    is_garbled,
    may_need_decoding,
)
from engine.corpus.formats.pdf.reading import arrange_text
from engine.corpus.formats.pdf.right_to_left import read_in_order, runs_right_to_left

# Control characters, as fonts that do not declare their characters give them, except \x02, which is
# PDFium's sign for a hyphen at a line end.
_CONTROL = re.compile("[\x00\x01\x03-\x08\x0b\x0c\x0e-\x1f]")
_CATALOG_TYPE = re.compile(rb"/Type\s*/Catalog\b")
# `12 0 obj`
_OBJECT_BEGIN = re.compile(rb"(?<!\d)(\d{1,9})\s+(\d{1,5})\s+obj\b")
_ENCRYPTION = re.compile(rb"/Encrypt\b|/Filter\s*/Standard\b")
_MAX_CATALOG_LENGTH = 10_000  # bytes
# Why PDFium cannot open a file, by its code of an error.
_REASONS = {3: "it is not a readable PDF", 6: "its pages cannot be found"}
# `D:20240103093826+01'00'`; all but the day may be missing.
_DATE = re.compile(r"(?:D:)?(\d{8})(\d{6})?([+-]\d\d)?'?(\d\d)?")


class LockedError(ValueError):
    """The error for a PDF that no known password opens.

    Its message says why, and is empty if only the right password is missing.
    """


def open_pdf(content: bytes) -> Any:
    """Open a PDF by pypdfium2, with a known password if it needs one.

    Raises LockedError if no password opens it, and ValueError with the reason if it is damaged.
    """
    from pypdfium2 import PdfDocument, PdfiumError
    from pypdfium2.raw import FPDF_ERR_FORMAT, FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

    for password in (None, *known_passwords()):
        try:
            return PdfDocument(content, password=password)
        except PdfiumError as error:
            if error.err_code == FPDF_ERR_SECURITY:
                reason = "locked in a way that no password opens here, as by rights management"
                raise LockedError(reason) from error
            if error.err_code == FPDF_ERR_FORMAT:
                completed = _append_end(content)
                if completed:
                    with suppress(PdfiumError):
                        return PdfDocument(completed)
            if error.err_code != FPDF_ERR_PASSWORD:
                reason = _REASONS.get(error.err_code or 0, "PDFium cannot read it")
                raise ValueError(reason) from error
    raise LockedError


def is_truncated(content: bytes) -> bool:
    """Return whether the end of a PDF, which gives the place of the object table, is missing."""
    return content.rfind(b"startxref") < content.rfind(b"endobj")


def _append_end(content: bytes) -> bytes:
    """Add an end to a truncated PDF that names its last catalog; PDFium finds all else itself.

    Empty if the PDF has no catalog, or if it is locked, since its own end says how.
    """
    catalog = max((match.start() for match in _CATALOG_TYPE.finditer(content)), default=0)
    search_start = max(0, catalog - _MAX_CATALOG_LENGTH)
    # The last of these is the catalog, as its type stands within it.
    objects = list(_OBJECT_BEGIN.finditer(content, search_start, catalog))
    if not objects or _ENCRYPTION.search(content):
        return b""
    # The beginning of another object would hide the end.
    whole_objects = content[: content.rfind(b"endobj") + len(b"endobj")]
    end = b"\ntrailer<</Root %b %b R>>\nstartxref\n0\n%%%%EOF\n" % objects[-1].groups()
    return whole_objects + end


@contextmanager
def open_page(document: Any, index: int) -> Iterator[Any]:
    """Open a page of a document of pypdfium2, and close it at the end of the context.

    Loading takes longer than reading, so a page is opened once for all that is asked of it.

    Raises ValueError if the page cannot be loaded or read.
    """
    from pypdfium2 import PdfiumError

    try:
        with closing(document[index]) as page:
            yield page
    except PdfiumError as error:
        raise ValueError("it is damaged") from error


def read_attachments(
    document: Any, pinned: Iterable[tuple[int, int]]
) -> Iterator[Member | LeftOut]:
    """Yield the files attached to a document, then those `pinned` to its pages.

    `pinned` are pairs of the index of a page and the index of the note on it that holds the file.
    """
    from pypdfium2 import PdfAttachment, raw

    for number in range(document.count_attachments()):
        yield _read_attachment(partial(document.get_attachment, number), number + 1)
    for index, note_index in pinned:
        with open_page(document, index) as page:
            note = raw.FPDFPage_GetAnnot(page, note_index)
            file = raw.FPDFAnnot_GetFileAttachment(note)
            yield _read_attachment(partial(PdfAttachment, file, document), note_index + 1)
            raw.FPDFPage_CloseAnnot(note)


def _read_attachment(open_file: Callable[[], Any], number: int) -> Member | LeftOut:
    """Return an attachment; `open_file` returns it as pypdfium2's PdfAttachment.

    One without a name is called `attachment-` and its `number`.
    """
    name = f"attachment-{number}"
    try:
        file = open_file()
        name = clean(read_string(file.get_name)) or name
        return Member(name, bytes(file.get_data()))
    except (RuntimeError, ValueError):
        reason = "damaged: PDFium cannot extract it from the PDF"
        return LeftOut(name, "quarantined", "damaged", reason)


def read_page_text(page: Any) -> str | None:
    """Return the text of a page of pypdfium2, with `LINE_END` in words that a line end splits.

    None if its fonts do not say which letters they show.
    """
    with closing(page.get_textpage()) as text:
        plain = text.get_text_bounded()
        needs_decoding = may_need_decoding(plain)
        if needs_decoding:
            plain = decode_letters(text, plain)
            if is_garbled(plain):
                return None
        if runs_right_to_left(plain):
            shown = read_in_order(text)
        else:
            shown = arrange_text(text, plain)
        if needs_decoding:
            shown = decode_controls(shown)
        return remove_control_characters(shown)


def remove_control_characters(text: str) -> str:
    """Remove the control characters that fonts and notes of a PDF may hold from a text."""
    return _CONTROL.sub("", text)


def read_string(get: Callable[[], str]) -> str:
    """Return a title or name that pypdfium2 gives when `get` is called.

    pypdfium2 fails on a lone surrogate, which becomes U+FFFD here.
    """
    try:
        return str(get())
    except UnicodeDecodeError as error:
        return error.object.decode("utf-16-le", "replace")


def convert_date(text: str) -> str:
    """Convert `D:20240103093826+01'00'` to `20240103T093826+0100`.

    Empty for other text, and for a date without a day.
    """
    match = _DATE.match(text.strip())
    if not match:
        return ""
    day, time, hours_ahead, minutes_ahead = match.groups()
    moment = f"{day}T{time or '000000'}"
    if hours_ahead:
        moment += f"{hours_ahead}{minutes_ahead or '00'}"
    return moment
