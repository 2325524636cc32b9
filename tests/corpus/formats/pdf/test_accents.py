"""Accents that TeX draws over letters, as signs of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats.pdf import READER

# The accents of TeX's encoding OT1, in a font whose widths PDFium knows.
_FONT = (
    b"/BaseFont/Times-Roman/Encoding<</Type/Encoding/Differences[16/dotlessi 18/grave/acute/caron"
    b" 23/ring/cedilla/germandbls 94/circumflex 126/tilde/dieresis]>>"
)


def page_of(drawn: bytes, *, rotate: int = 0) -> str:
    """Return the text of a page with these operators of PDF."""
    content = office.pdf("The pelican.")
    begin = content.index(b"BT /F1")
    end = content.index(b" ET", begin)
    shown = b"BT /F1 10 Tf " + drawn
    content = content.replace(
        b"/Length %d" % (end + 3 - begin), b"/Length %d" % (len(shown) + 3)
    ).replace(content[begin:end], shown)
    content = content.replace(b"/BaseFont/Helvetica", _FONT)
    if rotate:
        content = content.replace(b"/MediaBox", b"/Rotate %d/MediaBox" % rotate)
    (document,) = READER.read(Path("a.pdf"), content)
    assert isinstance(document, ReadDocument)
    return document.text


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        # TeX moves back by the width of the accent and half of what the letter is wider.
        (b"[(Pr)-83(\x7f)416(ufung)-333(der)-333(T)-83(\x7f)416(ur)]TJ", "Prüfung der Tür"),
        (
            b"[(caf)-55(\x13)388(e)-333(p)-55(\x12)388(ere)-333(fran)-55(\x18)388(cais)]TJ",
            "café père français",
        ),
        (b"[(na)28(\x7f)306(\x10ve)-333(\x14)388(cesk)-55(\x13)388(a)]TJ", "naïve česká"),
        # A letter and a raised accent as separate texts.
        (b"(die)Tj 17.5 2.2 Td (\x7f)Tj -2 -2.2 Td (Ubung und mehr)Tj", "die Übung und mehr"),
        (b"(Gr)Tj 11.3 0 Td (\x7f)Tj -.75 0 Td (o\x19e)Tj", "Größe"),
        # Code in close lines, with signs right below letters.
        (b"8 TL (aaaaaaaaaa)Tj T* (x \x12y\x12 or \x12z\x12)Tj", "aaaaaaaaaa\nx `y` or `z`"),
        # Signs that stand alone: apostrophes that somebody typed, and degrees.
        (b"(l\x13avion, geht\x13s, 30\x17C, \x7f a)Tj", "l´avion, geht´s, 30˚C, ¨ a"),
    ],
)
def test_accents_belong_to_the_letters_below_them(drawn: bytes, text: str) -> None:
    assert page_of(b"50 700 Td " + drawn) == text


def test_accents_of_turned_text() -> None:
    drawn = b"0 1 -1 0 300 100 Tm [(Pr)-83(\x7f)416(ufung)]TJ 0 -14 Td [(Caf)-55(\x13)388(es)]TJ"
    assert page_of(drawn) == "Prüfung\nCafés"
    assert page_of(drawn, rotate=90) == "Prüfung\nCafés"
