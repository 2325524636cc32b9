"""Fonts without a table of the letters that they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, Member
from engine.corpus.formats.pdf import READER

_COMPOSITE = (
    b"/Subtype/Type0/BaseFont/ABCDEF+ArialMT/Encoding/Identity-H/DescendantFonts[<</Type/Font"
    b"/Subtype/CIDFontType2/BaseFont/ABCDEF+ArialMT/CIDSystemInfo<</Registry(Adobe)"
    b"/Ordering(Identity)/Supplement 0>>/CIDToGIDMap/Identity/DW 556/FontDescriptor"
    b"<</Type/FontDescriptor/FontName/ABCDEF+ArialMT/Flags 4/FontBBox[0 -200 1000 900]"
    b"/ItalicAngle 0/Ascent 900/Descent -200/CapHeight 700/StemV 80>>>>]"
)
_PLAIN_FONT = b"/Subtype/Type1/BaseFont/Helvetica"
_SENTENCE = "The lease of the berth begins in May: 1,234 €"


def number_glyphs(text: str) -> str:
    """Return the numbers of letters in the order of Arial's glyphs, each of two bytes, in hex."""
    codes = text.encode("mac_roman")
    return "".join(f"{code - (29 if code < 127 else 30):04X}" for code in codes)


def pdf(
    *lines: str,
    font: bytes = _COMPOSITE,
    pages: int = 1,
) -> bytes:
    """Return a PDF with lines of numbers of glyphs on its first page, and plain text on others."""
    content = office.pdf("The pelican.", *["The heron."] * (pages - 1))
    begin = content.index(b"BT /F1")
    end = content.index(b" ET", begin)
    drawn = " 0 -20 Td ".join(f"<{line}> Tj" for line in lines)
    shown = f"BT /F1 12 Tf 72 700 Td {drawn}".encode()
    content = content.replace(
        b"/Length %d" % (end + 3 - begin), b"/Length %d" % (len(shown) + 3), 1
    ).replace(content[begin:end], shown, 1)
    plain = b"/F1 3 0 R"
    own = b"/F1<</Type/Font" + font + b">>"
    return content.replace(plain, own, 1)


def read(content: bytes) -> list[ReadDocument | LeftOut]:
    found = list(READER.read(Path("a.pdf"), content))
    assert not any(isinstance(item, Member) for item in found)
    return [item for item in found if not isinstance(item, Member)]


def test_letters_are_told_from_their_numbers_in_the_font() -> None:
    (document,) = read(pdf(number_glyphs(_SENTENCE), number_glyphs("Äpfel, Größe")))
    assert isinstance(document, ReadDocument)
    assert document.text == f"{_SENTENCE}\nÄpfel, Größe"


@pytest.mark.parametrize(
    "lines",
    [["Abcdef\x03ghijk\x03lmn\x03op"], [*["The pelican boards at dawn."] * 5, "\x03\x03\x03a"]],
)
def test_letters_of_fonts_with_few_letters_or_blanks_stay(lines: list[str]) -> None:
    text = "\n".join(lines)
    (document,) = read(office.pdf(text))
    assert isinstance(document, ReadDocument)
    assert document.text.split() == text.replace("\x03", " ").split()


def test_a_page_of_other_numbers_is_for_ocr() -> None:
    numbers = "".join(f"{1 + at % 30:04X}" for at in range(60))
    with unreadable("needs OCR"):
        read(pdf(numbers))
    document, left = read(pdf(numbers, pages=2))
    assert isinstance(document, ReadDocument)
    assert document.text == "The heron."
    assert [page.number for page in document.pages] == [2]
    assert isinstance(left, LeftOut)
    assert (left.member, left.kind) == ("page 1", "needs OCR")


def test_hyphens_that_a_font_calls_soft_and_private_figures() -> None:
    table = (
        b"begincmap 1 begincodespacerange<00><FF>endcodespacerange 2 beginbfrange<20><7E><0020>"
        b"<30><39><F730>endbfrange 2 beginbfchar<2D><00AD><7B><F7FC>endbfchar endcmap"
    )
    font = b"/Subtype/TrueType/BaseFont/ABCDEF+Arial/ToUnicode 100 0 R"
    lines = ("The e-mail to M-Shop - 4711-08 in North-", "haven, pre-", "and post-war, M{LLER")
    content = pdf(*[line.encode().hex() for line in lines], font=font)
    more = b"100 0 obj\n<</Length %d>>stream\n%b\nendstream\nendobj\n" % (len(table), table)
    (document,) = read(content.replace(b"xref\n0", more + b"xref\n0"))
    assert isinstance(document, ReadDocument)
    shown = "The e-mail to M-Shop - 4711-08 in Northhaven, pre- and post-war, MÜLLER"
    assert document.text == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Begri\x1b \x1cnden, o\x1ece", "Begriff finden, office"),
        ("di\x0berent \x0crst", "different first"),
        ("The\x03berth", "The berth"),
        ("\x1f Ebola", "Ebola"),
    ],
)
def test_ligatures_and_blanks_of_fonts_without_names(text: str, shown: str) -> None:
    content = office.pdf(f"The pelican boards at dawn.\n{text}")
    (document,) = read(content)
    assert isinstance(document, ReadDocument)
    assert document.text.split("\n")[1].strip() == shown
