"""Stamps, signatures and other notes whose text is only in what is drawn for them."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut
from engine.corpus.formats.pdf import READER, PdfReader

# Whoever signs by Acrobat gets a drawing within a drawing.
_SIGNED = (
    "<</Type/Annot/Subtype/Widget/F 132/FT/Sig/T(Signature1)/Rect[50 50 350 100]/AP<</N 102 0 R>>"
    "/V<</Type/Sig/Filter/Adobe.PPKLite/Contents<00>/ByteRange[0 0 0 0]>>>>"
)
_STAMP = (
    "<</Type/Annot/Subtype/Stamp/F 4/Rect[50 50 350 100]/AP<</N 101 0 R>>/Contents(To accounts)>>"
)
_WATERMARK = "<</Type/Annot/Subtype/Watermark/Rect[50 50 350 100]/AP<</N 101 0 R>>>>"
_FIELD = (
    "<</Type/Annot/Subtype/Widget/F 4/FT/Tx/T(Master)/V(Ada Quay)/Rect[50 50 350 100]"
    "/AP<</N 101 0 R>>>>"
)
_NOTE = "<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(Check it.)>>"


def page_with(
    note: str,
    shown: str,
    form: str = "",
) -> bytes:
    """Return a page with a note that shows something, and with a comment."""
    drawn = f"BT /F1 12 Tf 5 20 Td ({shown}) Tj ET"
    shape = "/Type/XObject/Subtype/Form/BBox[0 0 300 50]"
    objects = {
        100: note,
        101: f"<<{shape}/Resources<</Font<</F1 3 0 R>>>>/Length {len(drawn)}>>stream\n{drawn}\n"
        "endstream",
        102: f"<<{shape}/Resources<</XObject<</FRM 101 0 R>>>>/Length 7>>stream\n/FRM Do\n"
        "endstream",
        103: _NOTE,
    }
    content = office.pdf("The pelican boards.").replace(
        b"/MediaBox", b"/Annots[100 0 R 103 0 R]/MediaBox"
    )
    content = content.replace(b"/Type/Catalog", b"/Type/Catalog" + form.encode())
    more = "".join(f"{number} 0 obj\n{text}\nendobj\n" for number, text in objects.items())
    return content.replace(b"xref\n0", more.encode() + b"xref\n0")


def read(
    note: str,
    shown: str,
    form: str = "",
) -> str:
    """Return the text of such a page without the first line."""
    (document,) = READER.read(Path("a.pdf"), page_with(note, shown, form))
    assert isinstance(document, ReadDocument)
    return document.text.replace("The pelican boards.\n\n", "")


@pytest.mark.parametrize(
    ("note", "form", "text"),
    [
        (_STAMP, "", "To accounts\nCheck it.\nPaid in May"),
        (_WATERMARK, "", "Check it.\nPaid in May"),
        (_SIGNED, "/AcroForm<</Fields[100 0 R]/SigFlags 3>>", "Check it.\nPaid in May"),
        # Programs that merge files forget to list the fields.
        (_FIELD, "/AcroForm<</Fields[]>>", "Check it.\nPaid in May"),
        (_FIELD, "", "Check it.\nPaid in May"),
        # A field that is listed has a name.
        (_FIELD, "/AcroForm<</Fields[100 0 R]>>", "Master: Ada Quay\nCheck it."),
        # Hidden.
        (_STAMP.replace("/F 4", "/F 2"), "", "Check it."),
    ],
)
def test_what_is_drawn_for_a_note_is_read(
    note: str,
    form: str,
    text: str,
) -> None:
    assert read(note, "Paid in May", form) == text


def test_words_of_the_page_and_of_a_comment_are_not_repeated() -> None:
    assert read(_STAMP, "The pelican") == "To accounts\nCheck it."
    assert read(_STAMP, "To accounts") == "To accounts\nCheck it."


def test_notes_for_which_the_time_does_not_suffice_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = page_with(_STAMP, "Paid in May")
    # The clock is read before, between and after both notes, and when their drawings are read.
    clock = itertools.chain([0.0] * 5, itertools.repeat(100.0))
    monkeypatch.setattr(
        time,
        "process_time",
        lambda: next(clock),
    )
    document, left = PdfReader(annotation_seconds=10.0).read(Path("a.pdf"), content)
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican boards.\n\nTo accounts\nCheck it."
    assert isinstance(left, LeftOut)
    assert left.kind == "timed out"
