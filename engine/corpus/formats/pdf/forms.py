"""What a reader of a PDF page sees in addition to its text: filled form fields and comments.

Both are annotations in the terms of the PDF standard, here called notes. `form` and `note` are
objects of PDFium.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from ctypes import POINTER, c_ushort, cast, create_string_buffer
from functools import partial
from typing import Any

from engine.corpus.formats.html import render_text
from engine.corpus.formats.pdf.pdfium import (
    open_page,
    open_pdf,
    read_page_text,
    remove_control_characters,
)
from engine.corpus.text.blocks import find_missing_lines
from engine.corpus.text.hyphens import BREAK, LINE_END

# How many seconds the notes of a document are read for at most.
ANNOTATION_SECONDS = 10.0
# Maximum size of one value in bytes.
_MAX_VALUE_LENGTH = 2**24
# Maximum number of options of one list.
_MAX_OPTIONS = 1000
# Flags of a note: it is hidden, or only shown in print.
_HIDDEN = 0x02
_NOT_SHOWN = _HIDDEN | 0x20
# Flag of a field for a password.
_PASSWORD_FIELD = 1 << 13
# Values of fields that are empty or not ticked.
_NOT_TICKED = ("", "Off")


@contextmanager
def open_form(document: Any) -> Iterator[Any]:
    """Open the form of a document of pypdfium2, for use until its pages are closed.

    None if the document has no form. pypdfium2's own form is not used: it lets PDFium prepare every
    page for input, which takes minutes if fields have many choices.
    """
    from pypdfium2 import raw

    info = raw.FPDF_FORMFILLINFO(version=2)
    form = None
    if document.get_formtype():
        form = raw.FPDFDOC_InitFormFillEnvironment(document, info)
    try:
        yield form
    finally:
        if form:
            raw.FPDFDOC_ExitFormFillEnvironment(form)


class PageAnnotations:
    """A reader of the filled fields and the comments of a document's pages.

    `form` is as `open_form` returns it. Reading ends after `seconds` of work for the whole
    document: the more fields a form has, the longer PDFium takes to find each of them.

    `is_complete` is False once the time was not enough. `pinned` lists the attached files among the
    notes, each as (index of the page, index of the note on it). `drawn` has, by index of the page,
    the indexes of stamps, signatures and other notes whose text is only in their drawing.
    """

    def __init__(self, form: Any, seconds: float) -> None:
        self.is_complete = True
        self.pinned: list[tuple[int, int]] = []
        self.drawn: defaultdict[int, set[int]] = defaultdict(set)
        self._form = form
        self._seconds_left = seconds

    def read(
        self,
        page: Any,
        index: int,
        text: str,
    ) -> str:
        """Return a line `name: value` for each filled field of a page, and one for each comment.

        Those that the page's `text` contains are left out. `page` is one of pypdfium2, and `index`
        its place in the document, from 0.
        """
        start = time.process_time()
        page_text = ""
        lines: dict[str, None] = {}
        for note in self._read_notes(page, index):
            plain = remove_control_characters(note.replace(LINE_END, ""))
            line = " ".join(plain.split())
            if line:
                page_text = page_text or " ".join(text.replace(BREAK, "").split())
                if line not in lines and not _contains_words(page_text, line):
                    lines[line] = None
            if time.process_time() - start > self._seconds_left:
                self.is_complete = False
                break
        self._seconds_left -= time.process_time() - start
        return "\n".join(lines)

    def _read_notes(self, page: Any, index: int) -> Iterator[str]:
        """Yield the text of each note of a page.

        It is empty for notes that are not shown: the caller looks at the time after each note.
        """
        from pypdfium2 import raw

        not_shown = (
            raw.FPDF_ANNOT_LINK,
            raw.FPDF_ANNOT_POPUP,
            raw.FPDF_ANNOT_FILEATTACHMENT,
        )
        fields: set[str] = set()
        for note_index in range(raw.FPDFPage_GetAnnotCount(page)):
            note = raw.FPDFPage_GetAnnot(page, note_index)
            if not note:
                yield ""
                continue
            try:
                kind = raw.FPDFAnnot_GetSubtype(note)
                if kind == raw.FPDF_ANNOT_FILEATTACHMENT:
                    self.pinned.append((index, note_index))
                if kind in not_shown or raw.FPDFAnnot_GetFlags(note) & _NOT_SHOWN:
                    yield ""
                    continue
                field_kind = None
                if kind == raw.FPDF_ANNOT_WIDGET:
                    field_kind = raw.FPDFAnnot_GetFormFieldType(self._form, note)
                if _is_drawn(note, kind, field_kind):
                    self.drawn[index].add(note_index)
                if field_kind is None:
                    yield from _read_comment(note)
                else:
                    yield _read_field(
                        self._form,
                        note,
                        field_kind,
                        fields,
                    )
            finally:
                raw.FPDFPage_CloseAnnot(note)


def _is_drawn(
    note: Any,
    kind: int,
    field_kind: int | None,
) -> bool:
    """Return whether only the drawing of a note of some kind holds its text.

    So it is with stamps, signatures, and fields that the document's form does not list. The kind
    of the field is None for a note that is no field.
    """
    from pypdfium2 import raw

    drawn_kinds = (raw.FPDF_ANNOT_STAMP, raw.FPDF_ANNOT_WATERMARK)
    drawn_fields = (
        -1,
        raw.FPDF_FORMFIELD_UNKNOWN,
        raw.FPDF_FORMFIELD_SIGNATURE,
    )
    if kind not in drawn_kinds and field_kind not in drawn_fields:
        return False
    return bool(raw.FPDFAnnot_HasKey(note, b"AP"))


def read_drawn_notes(
    content: bytes, drawn: Mapping[int, Collection[int]], seconds: float
) -> Iterator[tuple[int, str | None]]:
    """Yield the index of a page and its text with what `drawn` notes on it show.

    `drawn` is as `PageAnnotations` collects it. The text is None for the first page for which
    `seconds` do not suffice, which is the last one. Damaged pages are left out.
    """
    from pypdfium2 import raw

    start = time.process_time()
    # The notes become part of their pages, so this must not be the document that is read.
    with closing(open_pdf(content)) as document:
        for index, note_indexes in drawn.items():
            if time.process_time() - start > seconds:
                yield index, None
                return
            with suppress(ValueError):
                with open_page(document, index) as page:
                    _hide_notes(page, without=note_indexes)
                    raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
                with open_page(document, index) as page:
                    yield index, read_page_text(page) or ""


def _hide_notes(page: Any, without: Collection[int]) -> None:
    """Hide the notes of a page, except those with the indexes `without`."""
    from pypdfium2 import raw

    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, index)
        if note and index not in without:
            raw.FPDFAnnot_SetFlags(note, _HIDDEN)
        raw.FPDFPage_CloseAnnot(note)


def _read_comment(note: Any) -> Iterator[str]:
    """Yield the plain text of a comment or a text box, and the lines that only its rich text has.

    Source: PDF 32000-1, 12.7.3.4.
    """
    from pypdfium2 import raw

    plain = _read_string(partial(raw.FPDFAnnot_GetStringValue, note, b"Contents"))
    yield plain
    rich = _read_string(partial(raw.FPDFAnnot_GetStringValue, note, b"RC"))
    if rich:
        rich_line = " ".join(render_text(rich).split())
        yield find_missing_lines(plain, [rich_line])


def _contains_words(text: str, line: str) -> bool:
    """Return whether a text has the words of a line in sequence, not as parts of other words."""
    if line not in text:
        return False
    return re.search(rf"(?<!\w){re.escape(line)}(?!\w|[-./]\w)", text) is not None


def _read_field(
    form: Any,
    note: Any,
    kind: int,
    known: set[str],
) -> str:
    """Return `name: value` for the field that a note shows, empty if the field has no value.

    `kind` is that of the field in the terms of PDFium. A field may be shown by several notes.
    `known` holds the full names of the fields that were read before, and gets the name of this one.
    """
    from pypdfium2 import raw

    path = _read_string(partial(raw.FPDFAnnot_GetFormFieldName, form, note))
    if path in known:
        return ""
    list_kinds = (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    text_kinds = (raw.FPDF_FORMFIELD_TEXTFIELD, *list_kinds)
    tick_kinds = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
    if kind not in (*text_kinds, *tick_kinds):
        return ""
    if kind in text_kinds and raw.FPDFAnnot_GetFormFieldFlags(form, note) & _PASSWORD_FIELD:
        return ""
    if path:
        known.add(path)
    value = ""
    if kind in list_kinds:
        value = _read_selected_options(form, note)
    value = value or _read_string(partial(raw.FPDFAnnot_GetFormFieldValue, form, note))
    if value.strip() in _NOT_TICKED:
        return ""
    name = _read_string(partial(raw.FPDFAnnot_GetFormFieldAlternateName, form, note)).strip()
    name = name or _read_field_name(path)
    return f"{name}: {value}" if name else value


def _read_selected_options(form: Any, note: Any) -> str:
    """Return the labels of the selected options of a list; their values may differ from these."""
    from pypdfium2 import raw

    labels: list[str] = []
    for index in range(min(raw.FPDFAnnot_GetOptionCount(form, note), _MAX_OPTIONS)):
        if raw.FPDFAnnot_IsOptionSelected(form, note, index):
            labels.append(_read_string(partial(raw.FPDFAnnot_GetOptionLabel, form, note, index)))
    return ", ".join(labels)


def _read_field_name(path: str) -> str:
    """Return the last part of a field's full name: `a[0].School_Name[0]` → `School Name`."""
    name = re.split(r"\.(?=\S)", path)[-1]
    return re.sub(r"\[\d+\]$", "", name).replace("_", " ").strip()


def _read_string(ask: Callable[[Any, int], int]) -> str:
    """Return a text that PDFium writes into a buffer, in UTF-16 with a NUL at its end.

    `ask` takes the buffer and its size in bytes, and returns the size that it must have.
    """
    size = min(ask(None, 0), _MAX_VALUE_LENGTH)
    if size <= 2:
        return ""
    data = create_string_buffer(size)
    ask(cast(data, POINTER(c_ushort)), size)
    without_nul = data.raw[: size - 2]
    return without_nul.decode("utf-16-le", "replace")
