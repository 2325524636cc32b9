"""Numbers that Word counts stand before the paragraphs of .doc files, as they do in .docx."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fixtures.word_binary import NONE, doc, row

from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument
from engine.corpus.word_lists import numbered_by
from engine.corpus.word_tables import layout_of

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "office" / "tika"
STYLES, LISTS, CHANGES = 0xA2, 0x2E2, 0x2EA
DECIMAL, ROMAN, LETTER, BULLET = 0, 2, 4, 23
Level = tuple[int, int, str]  # first number, figures, text


def level(start: int, figures: int, text: str, *, legal: bool = False, restarts: int = -1) -> bytes:
    reported = "".join(chr(int(sign)) if sign in "012345678" else sign for sign in text)
    flags = (4 if legal else 0) | (8 if restarts >= 0 else 0)
    paragraph = b"\x0f\x84\x68\x01"  # it is indented: of no account here
    head = struct.pack("<iBB9xBIIBBBB", start, figures, flags, 0, 0, 0, 0, len(paragraph), max(0, restarts), 0)
    return head + paragraph + struct.pack("<H", len(reported)) + reported.encode("utf-16-le")


def lists(*made: Sequence[bytes]) -> bytes:
    """Lists named 1, 2, … of the first levels given; those of one level are simple ones, others have nine."""
    heads, levels = b"", b""
    for name, some in enumerate(made, 1):
        heads += struct.pack("<ii18sBB", name, 0, b"", 1 if len(some) == 1 else 0, 0)
        whole = [*some, *[level(1, 255, "")] * (9 - len(some))] if len(some) > 1 else some
        levels += b"".join(whole)
    return struct.pack("<H", len(made)) + heads + levels


def changes(*made: tuple[int, Sequence[bytes]]) -> bytes:
    """What paragraphs name: the list behind each, and the changes of its levels."""
    heads = b"".join(struct.pack("<iIIBBBB", name, 0, 0, len(some), 0, 0, 0) for name, some in made)
    return struct.pack("<I", len(made)) + heads + b"".join(b"\xff\xff\xff\xff" + b"".join(some) for _, some in made)


def starts_at(deep: int, start: int) -> bytes:
    return struct.pack("<iI", start, deep | 0x10)


def is_now(deep: int, other: bytes) -> bytes:
    return struct.pack("<iI", 0, deep | 0x20) + other


def style(based_on: int, operations: bytes, name: str = "Heading") -> bytes:
    upx = struct.pack("<H", 0) + operations
    made = struct.pack("<HHHHH", 1, 1 | based_on << 4, 1, 0, 0)
    made += struct.pack("<H", len(name)) + name.encode("utf-16-le") + b"\0\0" + struct.pack("<H", len(upx)) + upx
    made += bytes(len(made) % 2)
    return struct.pack("<H", len(made)) + made


def styles(made: Mapping[int, bytes]) -> bytes:
    some = b"".join(made.get(number, struct.pack("<H", 0)) for number in range(max(made) + 1))
    return struct.pack("<HHH14x", 18, max(made) + 1, 10) + some


def item(text: str, number: int, deep: int | None = None, heading: str = "") -> tuple[str, bytes]:
    """A paragraph of a list, from 1, and a level of it."""
    named = b"\x0b\x46" + struct.pack("<H", number)
    at = b"" if deep is None else b"\x0a\x26" + bytes([deep])
    return f"{text}\r", heading.encode() + at + named


def read(tmp_path: Path, content: bytes) -> ReadDocument:
    (tmp_path / "a.doc").write_bytes(content)
    (document,) = everything_in(tmp_path / "a.doc", "doc")
    assert isinstance(document, ReadDocument)
    return document


def lines(tmp_path: Path, paragraphs: Sequence[tuple[str, bytes]], beside: Mapping[int, bytes]) -> list[str]:
    return [line for line in read(tmp_path, doc(paragraphs, beside=beside)).text.split("\n") if line]


CLAUSES = [level(1, DECIMAL, "0."), level(1, DECIMAL, "0.1"), level(1, LETTER, "(2)")]


def test_clauses_are_reported_with_their_numbers(tmp_path: Path) -> None:
    beside = {LISTS: lists(CLAUSES), CHANGES: changes((1, []))}
    paragraphs = [
        ("The parties agree:\r", NONE), item("Berths", 1, 0), item("Depth", 1, 1), item("Tides", 1, 1),
        ("between the clauses\r", NONE), item("at noon", 1, 2), item("at dawn", 1, 2), item("Pilots", 1, 0), item("Fees", 1, 1),
    ]  # fmt: skip
    assert lines(tmp_path, paragraphs, beside) == [
        "The parties agree:", "1. Berths", "1.1 Depth", "1.2 Tides", "between the clauses", "(a) at noon", "(b) at dawn",
        "2. Pilots", "2.1 Fees",
    ]  # fmt: skip


def test_bullets_and_what_is_in_no_list_have_none(tmp_path: Path) -> None:
    beside = {LISTS: lists([level(1, BULLET, "\uf0b7")], [level(1, DECIMAL, "0)")]), CHANGES: changes((1, []), (2, []))}
    paragraphs = [item("a bullet", 1), item("first", 2), item("none", 0), item("hidden", 0xF803), item("second", 2)]
    assert lines(tmp_path, paragraphs, beside) == ["a bullet", "1) first", "none", "hidden", "2) second"]


def test_figures_legal_ones_and_where_a_level_begins_anew(tmp_path: Path) -> None:
    levels = [level(3, 1, "0"), level(1, ROMAN, "0-1", restarts=0), level(1, DECIMAL, "0.2", legal=True)]
    beside = {LISTS: lists(levels), CHANGES: changes((1, []))}
    paragraphs = [item("a", 1, 0), item("b", 1, 1), item("c", 1, 0), item("d", 1, 1), item("e", 1, 2)]
    assert lines(tmp_path, paragraphs, beside) == ["III a", "III-i b", "IV c", "IV-ii d", "4.1 e"]


def test_lists_of_one_count_together_unless_they_start_anew_or_count_in_another_way(tmp_path: Path) -> None:
    made = changes((1, []), (1, []), (1, [starts_at(0, 7)]), (1, [is_now(0, level(1, LETTER, "0)"))]))
    beside = {LISTS: lists(CLAUSES), CHANGES: made}
    paragraphs = [item(text, number, 0) for text, number in (("a", 1), ("b", 2), ("c", 3), ("d", 3), ("e", 4))]
    assert lines(tmp_path, paragraphs, beside) == ["1. a", "2. b", "7. c", "8. d", "i) e"]


def test_headings_count_by_their_styles_and_are_called_with_their_numbers(tmp_path: Path) -> None:
    named = b"\x0b\x46\x01\x00"
    made = {1: style(0xFFF, named), 2: style(1, b"\x0a\x26\x01"), 3: style(0xFFF, b"")}
    beside = {LISTS: lists(CLAUSES), CHANGES: changes((1, [])), STYLES: styles(made)}
    paragraphs = [
        ("Berths\r", b"H1"), ("Depth\r", b"H2"), ("is 9 m.\r", NONE), item("Preface", 0, heading="H1"), ("Notice\r", b"H2"),
        ("Closing\r", b"H3"),
    ]  # fmt: skip
    document = read(tmp_path, doc(paragraphs, beside=beside))
    assert [line for line in document.text.split("\n") if line] == [
        "1. Berths", "1.1 Depth", "is 9 m.", "Preface", "1.2 Notice", "Closing",
    ]  # fmt: skip
    assert [(heading.level, heading.title) for heading in document.headings] == [
        (1, "1. Berths"), (2, "1.1 Depth"), (1, "Preface"), (2, "1.2 Notice"), (3, "Closing"),
    ]  # fmt: skip
    assert all(document.text.startswith(heading.title, heading.start) for heading in document.headings)


def test_equal_lines_get_each_their_own_number(tmp_path: Path) -> None:
    beside = {LISTS: lists(CLAUSES), CHANGES: changes((1, []))}
    paragraphs = [("Fees\r", NONE), item("Fees", 1, 0), ("Fees\r", NONE), item("Fees\x0bby the hour", 1, 0)]
    assert lines(tmp_path, paragraphs, beside) == ["Fees", "1. Fees", "Fees", "2. Fees", "by the hour"]


def test_what_stands_in_a_table_counts_and_stays_a_row(tmp_path: Path) -> None:
    beside = {LISTS: lists(CLAUSES), CHANGES: changes((1, []))}
    named = item("", 1, 0)[1]
    cells = [(text, properties + named if text[0] == "N" else properties) for text, properties in row("North", "12 m")]
    found = lines(tmp_path, [item("Berths", 1, 0), *cells, *row("South", "9 m"), item("Pilots", 1, 0)], beside)
    assert (found[0], found[-1]) == ("1. Berths", "3. Pilots")
    assert "North | 12 m" in found


@pytest.mark.parametrize(
    ("operations", "number", "deep"),
    [
        (b"", None, None), (b"\x0a\x26\x02\x0b\x46\x05\x00", 5, 2), (b"\x0b\x46\x01\xf8", 0, None), (b"\x0a\x26\x0c", None, 0),
        (b"\x0d\xc6\x02\x00\x00\x0b\x46\x05\x00", 5, None), (b"\x15\xc6\xff\x01\0\0\0\0\x01\0\0\0\x0b\x46\x05\x00", 5, None),
        (b"\x08\xd6\x04\x00\x0b\x46\x07\x0b\x46\x05\x00", 5, None), (b"\x0b", None, None), (b"\x0b\x46", None, None),
    ],
)  # fmt: skip
def test_what_some_operations_name(operations: bytes, number: int | None, deep: int | None) -> None:
    assert numbered_by(operations) == (number, deep)


def test_lists_that_are_damaged_cost_their_numbers_alone() -> None:
    paragraphs = [item("Berths", 1, 0), *row("North", "12"), *row("South", "9"), ("Depth\r", b"H2")]
    beside = {
        LISTS: lists(CLAUSES, CLAUSES),
        CHANGES: changes((1, [starts_at(12, 3)]), (2, [])),
        STYLES: styles({2: style(2, b"")}),
    }
    assert [label for label, _ in layout_of(doc(paragraphs, beside=beside)).numbered] == ["1.", ""]
    rng = random.Random(5)
    without = 0
    for _ in range(1500):
        harmed = {at: bytearray(stored) for at, stored in beside.items()}
        for stored in harmed.values():
            for _ in range(rng.choice((0, 1, 8, 60))):
                stored[rng.randrange(len(stored))] = rng.randrange(256)
        cut = {
            at: bytes(stored[: rng.choice((len(stored), rng.randrange(1, len(stored))))])
            for at, stored in harmed.items()
        }
        layout = layout_of(doc(paragraphs, beside=cut))
        assert [table.rows for table in layout.tables] == [[["North", "12"], ["South", "9"]]]
        without += not layout.numbered
    assert 50 < without < 1450


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not there")
def test_real_documents_have_the_numbers_that_they_say_they_have(tmp_path: Path) -> None:
    """Each line of the first is what Word prints before it; of the second the same document is there as .docx."""
    labels = layout_of((SHARED / "testWORD_override_list_numbering.doc").read_bytes()).numbered
    same = [label == "".join(line.split()) for label, line in labels if label]
    said = [(label, line) for label, line in labels if label and label != line]
    assert len(same) > 30
    assert [line for _, line in said] == ["0th", "1st", "1st.1", "1st.2", "1st.2.1someText", "1st.2.2someText",
        "1st.2.2someOtherText.1", "1st.2.3someText", "1st.3", "2nd", "3rd", "4th", "5th"]  # fmt: skip
    assert [label for label, _ in said] == ["0", "1", "1.1", "1.2", "1.2.1someText", "1.2.2someText", "1.2.2someOtherText.1",
        "1.2.3someText", "1.3", "2", "3", "4", "5"]  # fmt: skip
    texts = []
    for ending in ("doc", "docx"):
        path = SHARED / f"testWORD_numbered_list.{ending}"
        (document,) = everything_in(path, ending)
        assert isinstance(document, ReadDocument)
        whole = document.text.replace("Cell b", "Cell b\n").split("\n")
        texts.append([line for line in whole if line.strip() and "Within cell" not in line])
    begin, end = (texts[0].index(line) for line in ("1) This", "2.1. 2.1"))
    outside_boxes = [
        line for line in texts[1] if line not in ("I’m a little text box", "3. Short", "4. Stout", "a. 2 a", "i. 2 a i")
    ]
    assert texts[0][begin : end + 1] == outside_boxes[: end + 1 - begin]
