"""What a reader of a PDF page sees beside its text: what was filled into its form, and comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import POINTER, c_ushort, cast, create_string_buffer
from functools import partial
from typing import Any

_LARGEST = 2**24  # bytes of one value
_MOST = 20_000  # notes on one page
_HIDDEN = 0x02 | 0x20  # flags of a note that is not shown
_SECRET = 1 << 13  # flag of a field for a password
_OFF = ("", "Off")


def with_forms(document: Any) -> Any:
    """A document, as pypdfium2 has it, whose form can be asked for where PDFium can make sense of it; before any of its pages is
    loaded.
    """
    from pypdfium2 import PdfiumError

    with suppress(PdfiumError):
        if document.get_formtype():
            document.init_forms()
    return document


def beside(page: Any, text: str) -> str:
    """A line for each filled field of a page's form, `name: value`, and for each comment that its `text` does not hold."""
    lines = (" ".join(line.split()) for line in _lines(page))
    return "\n".join(line for line in dict.fromkeys(lines) if line and line not in text)


def _lines(page: Any) -> Iterator[str]:
    from pypdfium2 import raw

    form = page.formenv
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST)):
        note = raw.FPDFPage_GetAnnot(page, index)
        if not note:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(note)
            if raw.FPDFAnnot_GetFlags(note) & _HIDDEN or kind in (
                raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_FILEATTACHMENT,
            ):  # fmt: skip
                continue
            if kind == raw.FPDF_ANNOT_WIDGET:
                yield _field(form, note) if form else ""
            else:
                yield _told(partial(raw.FPDFAnnot_GetStringValue, note, b"Contents"))
        finally:
            raw.FPDFPage_CloseAnnot(note)


def _field(form: Any, note: Any) -> str:
    from pypdfium2 import raw

    written = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    ticked = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
    kind = raw.FPDFAnnot_GetFormFieldType(form, note)
    if kind not in (*written, *ticked) or (raw.FPDFAnnot_GetFormFieldFlags(form, note) & _SECRET and kind in written):
        return ""
    value = _told(partial(raw.FPDFAnnot_GetFormFieldValue, form, note))
    if value.strip() in _OFF:
        return ""
    shown = _told(partial(raw.FPDFAnnot_GetFormFieldAlternateName, form, note))
    name = shown.strip() or _named(_told(partial(raw.FPDFAnnot_GetFormFieldName, form, note)))
    return f"{name}: {value}" if name else value


def _named(path: str) -> str:
    """`form[0].page1[0].School_Name[0]` → `School Name`."""
    return re.sub(r"\[\d+\]$", "", path.rpartition(".")[2]).replace("_", " ").strip()


def _told(ask: Callable[[Any, int], int]) -> str:
    """A text that PDFium writes into a buffer, in UTF-16 with a NUL at its end."""
    size = min(ask(None, 0), _LARGEST)
    if size <= 2:
        return ""
    data = create_string_buffer(size)
    ask(cast(data, POINTER(c_ushort)), size)
    return data.raw[: size - 2].decode("utf-16-le", "replace")
