"""PDF files as PDFium opens them. Only ever called in a sandboxed child process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

from engine.core.characters import clean
from engine.corpus.formats import LeftOut, Member
from engine.corpus.formats.locked import known
from engine.corpus.formats.pdf.reading import arranged
from engine.corpus.formats.pdf.right_to_left import in_reading_order, runs_right_to_left

_UNTOLD = re.compile(
    "[\x00\x01\x03-\x08\x0b\x0c\x0e-\x1f]"
)  # glyphs of fonts that do not say what they stand for
_CATALOG = re.compile(rb"/Type\s*/Catalog\b")
_OBJECT = re.compile(rb"(?<!\d)(\d{1,9})\s+(\d{1,5})\s+obj\b")
_LOCK = re.compile(rb"/Encrypt\b|/Filter\s*/Standard\b")
_MAX_CATALOG_LENGTH = 10_000  # bytes
_WHY = {3: "it is not a readable PDF", 6: "its pages cannot be found"}
_DATE = re.compile(r"(?:D:)?(\d{8})(\d{6})?([+-]\d\d)?'?(\d\d)?")


class LockedError(ValueError):
    """A PDF that none of the known passwords opens; says why where it is not for want of the
    right one.
    """


def opened(content: bytes) -> Any:
    """A PDF as pypdfium2 opens it, with a known password where it needs one.

    Raises LockedError where no password opens it, ValueError with the reason where it is damaged.
    """
    from pypdfium2 import PdfDocument, PdfiumError
    from pypdfium2.raw import FPDF_ERR_FORMAT, FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

    for password in (None, *known()):
        try:
            return PdfDocument(content, password=password)
        except PdfiumError as error:
            if error.err_code == FPDF_ERR_SECURITY:
                raise LockedError(
                    "locked in a way that no password opens here, as by rights management"
                ) from error
            if error.err_code == FPDF_ERR_FORMAT and (whole := _with_end(content)):
                with suppress(PdfiumError):
                    return PdfDocument(whole)
            if error.err_code != FPDF_ERR_PASSWORD:
                raise ValueError(_WHY.get(error.err_code or 0, "PDFium cannot read it")) from error
    raise LockedError


def is_cut(content: bytes) -> bool:
    """Whether the end of a PDF is not there: behind its objects it says where their table is."""
    return content.rfind(b"startxref") < content.rfind(b"endobj")


def _with_end(content: bytes) -> bytes:
    """A PDF that is cut, with an end that names its catalog: PDFium looks for all else itself.

    Empty where that is not known, or the PDF is locked, its own end says how.
    """
    catalog = max((found.start() for found in _CATALOG.finditer(content)), default=0)
    *_, begun = (None, *_OBJECT.finditer(content, max(0, catalog - _MAX_CATALOG_LENGTH), catalog))
    if begun is None or _LOCK.search(content):
        return b""
    whole = content[
        : content.rfind(b"endobj") + len(b"endobj")
    ]  # what is begun behind it hides the end
    return whole + b"\ntrailer<</Root %b %b R>>\nstartxref\n0\n%%%%EOF\n" % begun.groups()


@contextmanager
def page_of(document: Any, index: int) -> Iterator[Any]:
    """A page while it is looked at: to load one takes longer than all that is asked of it.

    Raises ValueError for a page that cannot be loaded or does not let itself be read.
    """
    from pypdfium2 import PdfiumError

    try:
        with closing(document[index]) as page:
            yield page
    except PdfiumError as error:
        raise ValueError("it is damaged") from error


def attached(document: Any, pinned: Iterable[tuple[int, int]]) -> Iterator[Member | LeftOut]:
    """The files attached to a document, then those `pinned` to its pages: index of the page and
    of the note.
    """
    from pypdfium2 import PdfAttachment, raw

    for number in range(document.count_attachments()):
        yield _taken(partial(document.get_attachment, number), number + 1)
    for index, place in pinned:
        with page_of(document, index) as page:
            note = raw.FPDFPage_GetAnnot(page, place)
            yield _taken(
                partial(PdfAttachment, raw.FPDFAnnot_GetFileAttachment(note), document), place + 1
            )
            raw.FPDFPage_CloseAnnot(note)


def _taken(attachment: Callable[[], Any], number: int) -> Member | LeftOut:
    name = f"attachment-{number}"
    try:
        file = attachment()
        name = clean(said(file.get_name)) or name
        return Member(name, bytes(file.get_data()))
    except (RuntimeError, ValueError):  # of PDFium
        return LeftOut(
            name, "quarantined", "damaged", "damaged: PDFium cannot extract it from the PDF"
        )


def text_of(page: Any) -> str:
    """The text that a page shows, with `LINE_END` between the parts of a word that the end of a
    line parts.
    """
    with closing(page.get_textpage()) as text:
        plain = text.get_text_bounded()
        return printable(
            in_reading_order(text) if runs_right_to_left(plain) else arranged(text, plain)
        )


def printable(text: str) -> str:
    """A text without the control characters that fonts and notes of a PDF may hold."""
    return _UNTOLD.sub("", text)


def said(get: Callable[[], str]) -> str:
    """What pypdfium2 gets of a title or a name: it gives up where one holds half a sign, which
    becomes U+FFFD here.
    """
    try:
        return str(get())
    except UnicodeDecodeError as error:
        return error.object.decode("utf-16-le", "replace")


def iso_date(text: str) -> str:
    """`D:20240103093826+01'00'` → `20240103T093826+0100`; what is none, or has no day → empty."""
    if not (found := _DATE.match(text.strip())):
        return ""
    day, time, ahead, minutes = found.groups()
    return f"{day}T{time or '000000'}" + (f"{ahead}{minutes or '00'}" if ahead else "")
