"""Tables of .doc files are read as rows with the names of their columns, and headings are those that have such a style."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from fixtures.word_binary import HEAD, NONE, doc, row

from engine.corpus.compound import CompoundFile
from engine.corpus.compound_writer import compound_file
from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument
from engine.corpus.word_binary import as_printed
from engine.corpus.word_tables import layout_of


def read(tmp_path: Path, content: bytes) -> str:
    (tmp_path / "a.doc").write_bytes(content)
    (document,) = everything_in(tmp_path / "a.doc", "doc")
    assert isinstance(document, ReadDocument)
    return document.text


BEFORE, AFTER = [("The pelican rests on the pier at noon.\r", NONE)], [("The heron moors.\r", NONE)]


@pytest.mark.parametrize(("width", "huge"), [(2, False), (1, False), (2, True)])
def test_rows_carry_the_names_of_their_columns(tmp_path: Path, width: int, huge: bool) -> None:
    rows = [
        *row("Berth", "Depth", "Note"),
        *row("North", "12", "tidal"),
        *row("South", "9", ""),
        *row("West", "", "closed"),
    ]
    assert read(tmp_path, doc([*BEFORE, *rows, *AFTER], width=width, huge=huge)) == (
        "The pelican rests on the pier at noon.\n\nBerth | Depth | Note\nBerth: North | Depth: 12 | Note: tidal\n"
        "Berth: South | Depth: 9\nBerth: West | Note: closed\n\nThe heron moors."
    )


def test_a_row_that_is_reported_again_on_each_page_names_the_columns(tmp_path: Path) -> None:
    words = [*row("Ada", "Quay"), *row("Bo", "Pier")]
    assert read(tmp_path, doc([*BEFORE, *words, *AFTER])).split("\n\n")[1] == "Ada | Quay\nBo | Pier"
    marked = [*row("Ada", "Quay", kind=HEAD), *row("Bo", "Pier")]
    assert read(tmp_path, doc([*BEFORE, *marked, *AFTER])).split("\n\n")[1] == "Ada | Quay\nAda: Bo | Quay: Pier"


def test_paragraphs_tabs_and_line_ends_within_a_cell_part_no_row(tmp_path: Path) -> None:
    rows = [*row("Berth", "Depth"), *row("North|pier", "12\tm\x0bat noon"), *row("South", "9")]
    assert read(tmp_path, doc([*BEFORE, *rows, *AFTER])).split("\n\n")[1] == (
        "Berth | Depth\nBerth: North pier | Depth: 12 m at noon\nBerth: South | Depth: 9"
    )


def test_empty_rows_are_left_out_and_tables_apart_stay_apart(tmp_path: Path) -> None:
    one = [*row("Berth", "Depth", kind=HEAD), *row("", ""), *row("North", "12"), *row("", "")]
    other = [*row("Pilot", "Boat", kind=HEAD), *row("Ada", "Tern")]
    text = read(tmp_path, doc([*one, *BEFORE, *other, *AFTER]))
    assert text.split("\n\n") == [
        "Berth | Depth\nBerth: North | Depth: 12", "The pelican rests on the pier at noon.",
        "Pilot | Boat\nPilot: Ada | Boat: Tern", "The heron moors.",
    ]  # fmt: skip


def test_what_has_tabs_and_is_no_table_stays_as_it_is(tmp_path: Path) -> None:
    agenda = [("09:00\tWelcome\t\r", NONE), ("10:00\tPilots\t\r", NONE)]
    assert read(tmp_path, doc([*BEFORE, *agenda, *AFTER])).count("09:00\tWelcome") == 1
    plain = doc([*BEFORE, *AFTER])
    assert as_printed(plain) == plain


def test_headings_are_those_that_have_such_a_style(tmp_path: Path) -> None:
    paragraphs = [
        ("Moorings\r", NONE), ("Piers\r", b"H1"), *BEFORE, ("The  \x13 REF x \x14north\x15 pier\r", b"H2"), *AFTER,
        *row("Berth", "Depth"), *row("North", "12"), ("\r", b"H1"), ("Moorings\r", b"H1"), *AFTER,
    ]  # fmt: skip
    (tmp_path / "a.doc").write_bytes(doc(paragraphs))
    (document,) = everything_in(tmp_path / "a.doc", "doc")
    assert isinstance(document, ReadDocument)
    assert [(heading.level, heading.title) for heading in document.headings] == [
        (1, "Piers"), (2, "The north pier"), (1, "Moorings"),
    ]  # fmt: skip
    places = [heading.start for heading in document.headings]
    assert places[0] == document.text.index("Piers")
    assert places[2] == document.text.rindex("Moorings") > document.text.index("Berth: North")


def test_whatever_is_damaged_nothing_is_raised() -> None:
    rows = [*row("Berth", "Depth", kind=HEAD), *row("North", "12"), *row("South", "9")]
    sound = doc([*BEFORE, *rows, *AFTER], huge=True)
    assert [table.rows for table in layout_of(as_printed(sound)).tables] == [
        [["Berth", "Depth"], ["North", "12"], ["South", "9"]]
    ]
    rng = random.Random(7)
    different = 0
    for _ in range(1500):
        harmed = bytearray(sound)
        for _ in range(rng.choice((1, 8, 60))):
            harmed[rng.randrange(512, len(harmed))] = rng.randrange(256)
        cut = bytes(harmed[: rng.choice((len(harmed), rng.randrange(600, len(harmed))))])
        found = layout_of(as_printed(cut)).tables
        different += len(found) != 1
    assert different > 50


def test_a_damaged_list_of_paragraphs_costs_no_more_than_the_tables(tmp_path: Path) -> None:
    opened = CompoundFile(doc([("See \x13 REF x \x14page\x1e3\x15.\r", NONE), *row("Berth", "Depth"), *AFTER]))
    streams = {name: bytearray(opened.read(name)) for name in opened.names()}
    struct.pack_into("<II", streams["WordDocument"], 0x0102, len(streams["1Table"]) - 4, 4000)
    streams["1Table"] += b"\xff\xff\x3f\x00" * 8
    text = read(tmp_path, compound_file({name: bytes(content) for name, content in streams.items()}))
    assert text.startswith("See page-3.\n")
    assert "Berth\tDepth" in text
