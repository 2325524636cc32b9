"""What a reader of a PDF page sees beside its text: what was filled into its form, and comments."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_ushort, cast, create_string_buffer
from functools import partial
from typing import Any

from engine.corpus.formats.html import shown_text
from engine.corpus.formats.pdf.pdfium import printable
from engine.corpus.text.blocks import lacking_in
from engine.corpus.text.hyphens import BREAK, LINE_END

PATIENCE = (
    10.0  # seconds of work for a file: the more fields a form has, the longer PDFium looks for each
)
_MAX_VALUE_LENGTH = 2**24  # bytes of one value
_MAX_OPTIONS = 1000  # of one list to choose from
_HIDDEN = 0x02 | 0x20  # flags of a note that is not shown
_SECRET = 1 << 13  # flag of a field for a password
_OFF = ("", "Off")


@contextmanager
def form_of(document: Any) -> Iterator[Any]:
    """The form of a document, as pypdfium2 has it; None where it has none.

    Its pages must be closed before.

    pypdfium2's own form has PDFium make every page ready to be filled in, which takes minutes where
    fields have many choices.
    """
    from pypdfium2 import raw

    info = raw.FPDF_FORMFILLINFO(version=2)
    if document.get_formtype():
        form = raw.FPDFDOC_InitFormFillEnvironment(document, info)
    else:
        form = None
    try:
        yield form
    finally:
        if form:
            raw.FPDFDOC_ExitFormFillEnvironment(form)


class Beside:
    """Asks the pages of one document, as pypdfium2 has it, for what stands beside their text;
    its `form` is as `form_of` has it. `whole`: as yet there was time for all of it; `pinned`:
    the indexes of pages and of the notes on them that are files.
    """

    def __init__(self, form: Any) -> None:
        self.whole = True
        self.pinned: list[tuple[int, int]] = []
        self._form = form
        self._left = PATIENCE

    def of(self, page: Any, index: int, text: str) -> str:
        """A line for each filled field of a page's form, `name: value`, and for each comment
        that its `text` does not hold.
        """
        begun = time.process_time()
        said = ""
        lines = dict[str, None]()
        for line in self._lines(page, index):
            if line := " ".join(printable(line.replace(LINE_END, "")).split()):
                said = said or " ".join(text.replace(BREAK, "").split())
                if line not in lines and not _holds(said, line):
                    lines[line] = None
            if time.process_time() - begun > self._left:
                self.whole = False
                break
        self._left -= time.process_time() - begun
        return "\n".join(lines)

    def _lines(self, page: Any, index: int) -> Iterator[str]:
        from pypdfium2 import raw

        fields = set[str]()
        for place in range(raw.FPDFPage_GetAnnotCount(page)):
            note = raw.FPDFPage_GetAnnot(page, place)
            if not note:
                yield ""
                continue
            try:
                kind = raw.FPDFAnnot_GetSubtype(note)
                if kind == raw.FPDF_ANNOT_FILEATTACHMENT:
                    self.pinned.append((index, place))
                if raw.FPDFAnnot_GetFlags(note) & _HIDDEN or kind in (
                    raw.FPDF_ANNOT_LINK,
                    raw.FPDF_ANNOT_POPUP,
                    raw.FPDF_ANNOT_FILEATTACHMENT,
                ):
                    yield ""
                elif kind == raw.FPDF_ANNOT_WIDGET:
                    yield _field(self._form, note, fields)
                else:
                    yield from _comment(note)
            finally:
                raw.FPDFPage_CloseAnnot(note)


def _comment(note: Any) -> Iterator[str]:
    """What a comment or a text box says: its plain text, and its rich text where that says more
    (PDF 32000-1, 12.7.3.4).
    """
    from pypdfium2 import raw

    plain = _string(partial(raw.FPDFAnnot_GetStringValue, note, b"Contents"))
    yield plain
    if rich := _string(partial(raw.FPDFAnnot_GetStringValue, note, b"RC")):
        yield lacking_in(plain, [" ".join(shown_text(rich).split())])


def _holds(text: str, line: str) -> bool:
    """Whether a text has the words of a line one after the other, and not as parts of others."""
    return line in text and re.search(rf"(?<!\w){re.escape(line)}(?!\w|[-./]\w)", text) is not None


def _field(form: Any, note: Any, known: set[str]) -> str:
    """A field by one of the places where it is shown; empty where it is one of those that are
    `known`.
    """
    from pypdfium2 import raw

    path = _string(partial(raw.FPDFAnnot_GetFormFieldName, form, note))
    if path in known:
        return ""
    written = (
        raw.FPDF_FORMFIELD_TEXTFIELD,
        raw.FPDF_FORMFIELD_COMBOBOX,
        raw.FPDF_FORMFIELD_LISTBOX,
    )
    ticked = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
    kind = raw.FPDFAnnot_GetFormFieldType(form, note)
    if kind not in (*written, *ticked) or (
        raw.FPDFAnnot_GetFormFieldFlags(form, note) & _SECRET and kind in written
    ):
        return ""
    known |= {path} if path else set()
    if kind in written[1:]:
        value = _chosen(form, note)
    else:
        value = ""
    value = value or _string(partial(raw.FPDFAnnot_GetFormFieldValue, form, note))
    if value.strip() in _OFF:
        return ""
    return _named(
        _string(partial(raw.FPDFAnnot_GetFormFieldAlternateName, form, note)), path, value
    )


def _chosen(form: Any, note: Any) -> str:
    """What is chosen in a list, as it is shown there: the value that the form sends may be
    another.
    """
    from pypdfium2 import raw

    options = range(min(raw.FPDFAnnot_GetOptionCount(form, note), _MAX_OPTIONS))
    chosen = [index for index in options if raw.FPDFAnnot_IsOptionSelected(form, note, index)]
    return ", ".join(
        _string(partial(raw.FPDFAnnot_GetOptionLabel, form, note, index)) for index in chosen
    )


def _named(shown: str, path: str, value: str) -> str:
    """A value with the name that a form shows for it, else with the end of its `path`: of
    `a[0].School_Name[0]` `School Name`.
    """
    name = (
        shown.strip()
        or re.sub(r"\[\d+\]$", "", re.split(r"\.(?=\S)", path)[-1]).replace("_", " ").strip()
    )
    return f"{name}: {value}" if name else value


def _string(ask: Callable[[Any, int], int]) -> str:
    """A text that PDFium writes into a buffer, in UTF-16 with a NUL at its end."""
    size = min(ask(None, 0), _MAX_VALUE_LENGTH)
    if size <= 2:
        return ""
    data = create_string_buffer(size)
    ask(cast(data, POINTER(c_ushort)), size)
    return data.raw[: size - 2].decode("utf-16-le", "replace")
