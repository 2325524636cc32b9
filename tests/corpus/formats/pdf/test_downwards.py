"""Pages of Japanese whose lines run downwards, from the right to the left."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats.pdf import READER

_LINES = (
    "第一条甲は乙に次の物件を",
    "賃貸し乙はこれを賃借する",
    "第二条賃料は月額十万円で",
    "毎月末日までに支払う",
)
# A font in which they have the numbers from 1.
_LETTERS = "".join(dict.fromkeys("".join(_LINES)))
_TO_UNICODE = "".join(f"<{at:04X}> <{ord(letter):04X}> " for at, letter in enumerate(_LETTERS, 1))
_FONT = (
    "/Subtype/Type0/BaseFont/HeiseiMin-W3/Encoding/Identity-{writing}/ToUnicode 99 0 R"
    "/DescendantFonts[<</Type/Font/Subtype/CIDFontType0/BaseFont/HeiseiMin-W3"
    "/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>/DW 1000"
    "/FontDescriptor<</Type/FontDescriptor/FontName/HeiseiMin-W3"
    "/Flags 4/FontBBox[0 -200 1000 900]/ItalicAngle 0/Ascent 880/Descent -120/CapHeight 700"
    "/StemV 80>>>>]"
)


def read(*lines: tuple[float, float, str], writing: str = "V") -> str:
    """Return what is read of a page with lines at places. `writing`: V is downwards, H across."""
    content = office.pdf("The pelican.")
    begin = content.index(b"BT /F1")
    end = content.index(b" ET", begin)
    drawn = ""
    for x, y, text in lines:
        codes = "".join(f"{_LETTERS.index(letter) + 1:04X}" for letter in text)
        drawn += f"1 0 0 1 {x} {y} Tm <{codes}> Tj "
    shown = f"BT /F1 12 Tf {drawn}".encode()
    content = content.replace(
        b"/Length %d" % (end + 3 - begin), b"/Length %d" % (len(shown) + 3), 1
    ).replace(content[begin:end], shown, 1)
    font = f"/F1<</Type/Font{_FONT.format(writing=writing)}>>".encode()
    letters = (
        "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange"
        f" {len(_LETTERS)} beginbfchar {_TO_UNICODE}endbfchar endcmap"
    )
    stream = f"\n99 0 obj<</Length {len(letters)}>>stream\n{letters}\nendstream endobj\nxref"
    content = content.replace(
        b"\nxref",
        stream.encode(),
        1,
    )
    (document,) = READER.read(Path("a.pdf"), content.replace(b"/F1 3 0 R", font, 1))
    assert isinstance(document, ReadDocument)
    return document.text


@pytest.mark.parametrize("step", [1, -1])
def test_lines_are_read_from_the_right(step: int) -> None:
    placed = [(500 - 20 * number, 700, line) for number, line in enumerate(_LINES)]
    assert read(*placed[::step]) == "\n".join(_LINES)


def test_tiers_are_read_one_below_the_other() -> None:
    upper = [(500 - 20 * number, 700, line) for number, line in enumerate(_LINES[:2])]
    lower = [(500 - 20 * number, 520, line) for number, line in enumerate(_LINES[2:])]
    assert read(*upper, *lower) == "\n".join(_LINES)


def test_lines_across_are_read_from_the_top() -> None:
    placed = [(72, 700 - 20 * number, line) for number, line in enumerate(_LINES)]
    assert read(*placed, writing="H") == "\n".join(_LINES)
