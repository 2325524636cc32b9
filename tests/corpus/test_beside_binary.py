"""Comments, notes, margins, text boxes and charts of .doc and .xls files, written by hand."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fixtures import office
from fixtures.office import biff_record

from engine.corpus.beside_binary import beside
from engine.corpus.compound import CompoundFile
from engine.corpus.compound_writer import compound_file
from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument

OWN = "The pelican boards at dawn.\r"
FOOTNOTES, HEADERS, COMMENTS, ENDNOTES, BOXES = 0x50, 0x54, 0x5C, 0x60, 0x64
CHART, SHEET, COMMENT, BOX = 0x20, 0x10, 0x19, 0x06


def read(tmp_path: Path, name: str, content: bytes) -> str:
    (tmp_path / name).write_bytes(content)
    (document,) = everything_in(tmp_path / name, name[-3:])
    assert isinstance(document, ReadDocument)
    return document.text


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def doc(parts: Mapping[int, str], own: str = OWN, *, lengths: Mapping[int, int] = {}) -> bytes:
    """A document with parts behind its own text, by where their lengths stand."""
    made = CompoundFile(office.doc(own + "".join(parts[at] for at in sorted(parts))))
    word, table = bytearray(made.read("WordDocument")), bytearray(made.read("1Table"))
    struct.pack_into("<I", word, 0x4C, units(own))
    for at, length in {**{at: units(text) for at, text in parts.items()}, **lengths}.items():
        struct.pack_into("<I", word, at, length)
    struct.pack_into("<I", table, 64 + 9, units(own) + sum(map(units, parts.values())))
    return compound_file({"WordDocument": bytes(word), "1Table": bytes(table)})


def of_pieces(pieces: Sequence[bytes], starts: Sequence[int], own: int, comments: int) -> bytes:
    """A document whose text stands in pieces of one byte a character, which begin at numbers of their own."""
    made = CompoundFile(office.doc())
    word = bytearray(made.read("WordDocument")[:1024])
    struct.pack_into("<I", word, 0x4C, own)
    struct.pack_into("<I", word, COMMENTS, comments)
    places = []
    for piece in pieces:
        places.append(struct.pack("<HIH", 0, len(word) * 2 | 0x40000000, 0))
        word += piece
    listed = struct.pack(f"<{len(starts)}I", *starts) + b"".join(places)
    table = bytes(64) + b"\x02" + struct.pack("<I", len(listed)) + listed
    struct.pack_into("<II", word, 0x01A2, 64, len(table) - 64)
    return compound_file({"WordDocument": bytes(word).ljust(8192, b"\0"), "1Table": table.ljust(4096, b"\0")})


def book(*records: bytes, of: int = SHEET) -> bytes:
    """A workbook of one sheet with a cell, or a chart."""
    begin = biff_record(0x0809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 0)) + biff_record(
        0x42, struct.pack("<H", 1200)
    )
    cell = biff_record(0x0204, struct.pack("<HHHHB", 0, 0, 0, 7, 0) + b"pelican") if of == SHEET else b""
    sheet = biff_record(0x0809, struct.pack("<HHHHII", 0x600, of, 0, 0, 0, 0)) + biff_record(
        0x0200, struct.pack("<IIHHH", 0, 1, 0, 1, 0)
    )
    listed = biff_record(0x85, struct.pack("<IBBBB", len(begin) + 17, 0, 0, 1, 0) + b"A")
    whole = begin + listed + biff_record(0x0A, b"") + sheet + cell + b"".join(records) + biff_record(0x0A, b"")
    return compound_file({"Workbook": whole})


def drawn(kind: int, *pieces: bytes, length: int) -> bytes:
    """An object and its text, which stands in records of its own."""
    head = biff_record(0x5D, struct.pack("<HHHH", 0x15, 0x12, kind, 1) + bytes(14) + bytes(4))
    text = biff_record(0x01B6, struct.pack("<HH6xHHHH", 0, 0, length, 16, 0, 0))
    return head + text + b"".join(biff_record(0x3C, piece) for piece in pieces) + biff_record(0x3C, bytes(16))


def chart(*records: bytes) -> bytes:
    return b"".join(
        (biff_record(0x0809, struct.pack("<HHHHII", 0x600, CHART, 0, 0, 0, 0)), *records, biff_record(0x0A, b""))
    )


def test_all_parts_of_a_word_document_are_read(tmp_path: Path) -> None:
    parts = {
        FOOTNOTES: "\x02 A footnote on terns.\r", HEADERS: "\r\rHarbour office\rKeep dry\r", COMMENTS: "\x05Who says so?\r",
        ENDNOTES: "\x02 An endnote.\r", BOXES: "A box\r\r", 0x68: "Draft\r",
    }  # fmt: skip
    assert read(tmp_path, "a.doc", doc(parts)) == (
        "The pelican boards at dawn.\n\nA footnote on terns.\nHarbour office\nKeep dry\nWho says so?\nAn endnote.\nA box\nDraft"
    )


def test_a_comment_in_words_of_the_text_is_reported_and_a_header_that_repeats_them_is_not(tmp_path: Path) -> None:
    parts = {HEADERS: "Pelican at dawn\r", COMMENTS: "\x05dawn boards\r"}
    assert read(tmp_path, "a.doc", doc(parts)) == "The pelican boards at dawn.\n\ndawn boards"


def test_numbers_of_pages_are_no_header(tmp_path: Path) -> None:
    field = "\x13 PAGE \x143\x15"
    margins = f"Page {field} of \x13NUMPAGES\x1412\x15\r{field}\rTerns, \x13 TITLE \x14harbour\x15, page {field}\r"
    text = read(tmp_path, "a.doc", doc({HEADERS: margins}))
    assert text == "The pelican boards at dawn.\n\nTerns, harbour, page"


def test_parts_begin_where_the_text_ends_however_its_characters_are_written(tmp_path: Path) -> None:
    text = read(
        tmp_path, "a.doc", doc({FOOTNOTES: "A note.\r", COMMENTS: "Why?\r"}, "\U00013080\U00013081 The pelican.\r")
    )
    assert text.endswith("\n\n\U00013080\U00013081 The pelican.\nA note.\nWhy?")


def test_characters_that_take_four_bytes_are_read_in_the_text_itself(tmp_path: Path) -> None:
    text = read(tmp_path, "a.doc", doc({}, "The pelican.\rOn \U00010332\U0001033f it rests.\r"))
    assert text.split("\n\n")[1] == "On \U00010332\U0001033f it rests."


def test_pieces_of_one_byte_a_character_are_in_the_code_page_of_word(tmp_path: Path) -> None:
    content = of_pieces([b"The pelican.\r", b"Let\x92", b"s wait \x85\r"], [0, 13, 17, 26], 13, 13)
    assert read(tmp_path, "a.doc", content) == "The pelican.\n\nLet’s wait …"


def test_pieces_that_hold_the_same_characters_again_make_no_more_of_them() -> None:
    again = of_pieces([b"The pelican.\r", *[b"terns and gulls"] * 200], [0, *[13, 28] * 100, 13], 13, 15)
    assert list(beside("doc", again)) == [("comments", "terns and gulls")]


@pytest.mark.parametrize("length", [5000, 2**31, 2**32 - 1])
def test_lengths_beyond_the_file_cost_what_stands_beside_alone(tmp_path: Path, length: int) -> None:
    content = doc({COMMENTS: "Why?\r"}, lengths={COMMENTS: length})
    assert read(tmp_path, "a.doc", content) == "The pelican boards at dawn."


def test_comments_and_boxes_of_a_sheet_are_read(tmp_path: Path) -> None:
    text = "Ada:\nWhat depth?"
    comment = drawn(COMMENT, b"\0" + text[:6].encode(), b"\1" + text[6:].encode("utf-16-le"), length=len(text))
    again = drawn(COMMENT, b"\0pelican", length=7)
    box = drawn(BOX, b"\1" + "Überholt".encode("utf-16-le"), length=8)
    empty = drawn(BOX, length=0)
    assert read(tmp_path, "a.xls", book(comment, empty, again, box)) == "A\n\npelican\n\nAda:\nWhat depth?\nÜberholt"


def test_a_comment_that_a_sheet_does_not_hold_is_reported_where_all_its_words_come_elsewhere() -> None:
    lines = list(beside("xls", book(drawn(COMMENT, b"\0pelican", length=7), drawn(BOX, b"\0tern", length=4))))
    assert lines == [("comments", "pelican"), ("boxes", "tern")]


def test_headers_and_footers_of_a_sheet_are_read_without_their_codes(tmp_path: Path) -> None:
    margins = b'&L&"Arial,Bold"&14Terns&C&P / &N&RQ&&A'
    header = biff_record(0x14, struct.pack("<HB", len(margins), 0) + margins)
    footer = biff_record(0x15, struct.pack("<HB", 5, 1) + "Größe".encode("utf-16-le"))
    assert read(tmp_path, "a.xls", book(header, footer, biff_record(0x14, b""))) == "A\n\npelican\n\nTerns\nQ&A\nGröße"


def test_the_words_of_a_chart_are_read(tmp_path: Path) -> None:
    title = biff_record(0x100D, b"\0\0" + struct.pack("<BB", 5, 0) + b"Gulls")
    named = biff_record(0x0204, struct.pack("<HHHHB", 0, 0, 0, 5, 1) + "März ".encode("utf-16-le"))
    assert read(tmp_path, "a.xls", book(chart(title, named))) == "A\n\npelican\n\nGulls\nMärz"
    assert list(beside("xls", book(chart(title), named))) == [("charts", "Gulls")]  # the second is a cell of the sheet


def test_the_table_of_a_chart_inside_another_document_is_read(tmp_path: Path) -> None:
    begin = biff_record(0x0809, struct.pack("<HHHHII", 0x680, 5, 0, 0, 0, 0))
    cell = biff_record(0x04, struct.pack("<HH3xBB", 1, 0, 5, 0) + b"Terns")
    graph = compound_file({"Workbook": begin + cell + biff_record(0x0A, b"")})
    assert read(tmp_path, "a.xls", graph) == "Terns"


@pytest.mark.parametrize("format", ["doc", "xls"])
def test_whatever_is_damaged_nothing_is_raised(format: str) -> None:
    parts = {FOOTNOTES: "A note.\r", COMMENTS: "Why?\r", BOXES: "A box.\r"}
    text = biff_record(0x100D, b"\0\0" + struct.pack("<BB", 5, 0) + b"Gulls")
    sound = doc(parts) if format == "doc" else book(drawn(COMMENT, b"\0pelican", length=7), chart(text))
    assert len(list(beside(format, sound))) == (3 if format == "doc" else 2)
    rng = random.Random(5)
    fewer = 0
    for _ in range(2000):
        harmed = bytearray(sound)
        for _ in range(rng.choice((1, 4, 40))):
            harmed[rng.randrange(512, len(harmed))] = rng.randrange(256)
        fewer += len(list(beside(format, bytes(harmed[: rng.choice((len(harmed), rng.randrange(len(harmed))))])))) < 2
    assert fewer > 100
