"""Rows of tables, columns that are drawn line by line, turned pages, and text boxes of PDFs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats.pdf import READER

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data"
ROWS = (
    ("Berth", "Depth", "Cranes", "Master"),
    ("North quay", "12.5 m", "4", "Ada Quay"),
    ("South quay", "9 m", "2", "Bo Mole"),
    ("East basin", "14 m", "6", "Cy Pier"),
)
LEFT = (72, 200, 290, 360)


def text_at(place: tuple[float, float], text: str) -> str:
    return f"1 0 0 1 {place[0]} {place[1]} Tm ({text}) Tj "


def page_of(
    drawn: Iterable[str],
    *,
    more: str = "",
    rotate: int = 0,
) -> str:
    """The text of a page on which texts are drawn at places."""
    content = office.pdf("The pelican.")
    shown = f"BT /F1 12 Tf {''.join(drawn)} ET {more}".encode()
    old = content[content.index(b"BT /F1") : content.index(b" ET") + 3]
    content = content.replace(old, shown).replace(
        b"/Length %d" % len(old), b"/Length %d" % len(shown)
    )
    if rotate:
        content = content.replace(b"/MediaBox", b"/Rotate %d/MediaBox" % rotate)
    (document,) = (
        found for found in READER.read(Path("a.pdf"), content) if isinstance(found, ReadDocument)
    )
    return document.text


def table(
    rows: Sequence[Sequence[str]], pitch: float = 20
) -> list[tuple[tuple[float, float], str]]:
    """What is drawn for the cells of a table, row by row."""
    return [
        ((LEFT[column], 700 - pitch * at), cell)
        for at, row in enumerate(rows)
        for column, cell in enumerate(row)
        if cell
    ]


def rules(heights: Iterable[float]) -> str:
    return " ".join(f"{70} {height} m {450} {height} l S" for height in heights)


def test_the_cells_of_a_row_stand_in_one_line() -> None:
    text = page_of(text_at(place, cell) for place, cell in table(ROWS))
    assert text.split("\n") == [" | ".join(row) for row in ROWS]


def test_rows_are_kept_where_the_file_draws_columns() -> None:
    by_column = sorted(table(ROWS), key=lambda cell: cell[0][0])
    text = page_of(
        (text_at(place, cell) for place, cell in by_column), more=rules(range(635, 720, 20))
    )
    assert text.split("\n") == [" | ".join(row) for row in ROWS]


@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        ([(238, 700, "15"), (244, 680, "7")], "15 7"),
        (
            [(244, 700, "1,200"), (238, 688, "15"), (244, 676, "7"), (300, 700, "EUR")],
            "1,200 15 7 EUR",
        ),
        (
            [
                (72, 700, "Quay"),
                (72, 684, "Dock"),
                (200, 700, "12"),
                (200, 684, "9"),
                (290, 700, "4"),
                (290, 684, "2"),
                (360, 700, "EUR"),
                (360, 684, "EUR"),
            ],
            "Quay Dock 12 9 4 2 EUR EUR",
        ),
        ([(100, 700, "T"), (100, 688, "O"), (100, 676, "P")], "TOP"),
    ],
)
def test_numbers_of_different_lines_are_not_joined(
    cells: Sequence[tuple[float, float, str]], lines: str
) -> None:
    text = page_of(text_at((left, height), cell) for left, height, cell in cells)
    assert " ".join(text.split()) == lines


def test_an_empty_cell_takes_no_line() -> None:
    rows = (
        ROWS[0],
        ("North quay", "", "4", ""),
        ("", "9 m", "", "Bo Mole"),
        ROWS[3],
    )
    text = page_of(text_at(place, cell) for place, cell in table(rows, pitch=28))
    assert text.split("\n") == [" | ".join(filter(None, row)) for row in rows]


def test_a_cell_of_several_lines_is_drawn_before_the_next() -> None:
    drawn = [
        *table(ROWS[:1], pitch=28),
        *(
            ((72, 672), "North"),
            ((72, 660), "quay"),
            ((200, 672), "12.5 m"),
            ((290, 672), "4"),
            ((360, 672), "Ada Quay"),
        ),
        *(
            ((72, 644), "South quay"),
            ((200, 644), "9 m"),
            ((290, 644), "2"),
            ((360, 644), "Bo"),
            ((360, 632), "Mole"),
        ),
    ]
    text = page_of(text_at(place, cell) for place, cell in drawn)
    assert text.split("\n") == [
        "Berth | Depth | Cranes | Master",
        "North quay | 12.5 m | 4 | Ada Quay",
        "South quay | 9 m | 2 | Bo Mole",
    ]


def test_rules_say_where_a_row_ends() -> None:
    """Each row is drawn line by line, and its first cell is in the middle."""
    drawn: list[tuple[tuple[float, float], str]] = []
    for at, name in enumerate(("North quay", "South quay", "East basin")):
        top = 700 - 40 * at
        drawn += [
            ((200, top), "for ships of"),
            ((360, top), "open by"),
            ((72, top - 6), name),
        ]
        drawn += [((200, top - 12), f"{9 + at} m and inspec-"), ((360, top - 12), "day")]
        drawn += [((200, top - 24), "ted yearly")]
    text = page_of(
        (text_at(place, cell) for place, cell in drawn), more=rules((716, 670, 630, 590))
    )
    assert text.split("\n") == [
        "North quay | for ships of 9 m and inspected yearly | open by day",
        "South quay | for ships of 10 m and inspected yearly | open by day",
        "East basin | for ships of 11 m and inspected yearly | open by day",
    ]


def test_text_around_a_table_stays_where_it_is() -> None:
    drawn = [
        ((72, 740), "The berths of the harbour are listed in the table that follows."),
        *table(ROWS),
        ((72, 600), "All berths are inspected once a year by the harbour master."),
    ]
    text = page_of(text_at(place, cell) for place, cell in drawn)
    assert text.split("\n")[0] == "The berths of the harbour are listed in the table that follows."
    assert text.split("\n")[1:5] == [" | ".join(row) for row in ROWS]
    assert text.split("\n")[5] == "All berths are inspected once a year by the harbour master."


def test_numbers_of_a_list_are_no_column() -> None:
    lines = [f"{number}." for number in range(1, 5)]
    drawn = [
        place
        for at, line in enumerate(lines)
        for place in (((72, 700 - 20 * at), line), ((110, 700 - 20 * at), "Moor."))
    ]
    text = page_of(text_at(place, cell) for place, cell in drawn)
    assert "|" not in text


COLUMNS = (
    (
        "The pelican boards the ferry at",
        "dawn and leaves the harbour be-",
        "fore noon. It carries the mail of",
        "all islands and their market.",
    ),
    (
        "The heron moors beside the old",
        "crane and waits for the tide. Its",
        "master signs the book of berths",
        "and pays what is due for a day.",
    ),
)


def drawn_line_by_line() -> list[str]:
    return [
        text_at((72 + 260 * column, 700 - 14 * at), COLUMNS[column][at])
        for at in range(4)
        for column in range(2)
    ]


def test_columns_that_are_drawn_line_by_line_are_read_one_after_the_other() -> None:
    text = page_of(drawn_line_by_line())
    assert text == "\n".join(COLUMNS[0] + COLUMNS[1]).replace("be-\nfore ", "before\n")


def test_columns_that_are_drawn_one_after_the_other_stay_so() -> None:
    text = page_of(
        text_at((72 + 260 * column, 700 - 14 * at), COLUMNS[column][at])
        for column in range(2)
        for at in range(4)
    )
    assert text == "\n".join(COLUMNS[0] + COLUMNS[1]).replace("be-\nfore ", "before ")


TURNS = {
    90: "0 1 -1 0",
    270: "0 -1 1 0",
    180: "-1 0 0 -1",
}
LINES = (
    "The heron moors at noon.",
    "Berths are inspected by the freight",
    "elevator and its inspec-",
    "tion.",
)


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("turn", [90, 270, 180])
def test_turned_text_is_read_line_by_line(rotate: int, turn: int) -> None:
    """Text that a page turns, or that is turned on it, or both."""
    places = {
        90: lambda at: (100 + 20 * at, 100),
        270: lambda at: (500 - 20 * at, 700),
        180: lambda at: (500, 100 + 20 * at),
    }
    drawn = [
        f"{TURNS[turn]} {places[turn](at)[0]} {places[turn](at)[1]} Tm ({line}) Tj "
        for at, line in enumerate(LINES)
    ]
    text = page_of(drawn, rotate=rotate)
    assert text.replace("\n", " ").replace("inspec- tion", "inspection") == " ".join(LINES).replace(
        "inspec- tion", "inspection"
    )
    assert text.startswith(
        "The heron moors at noon.\nBerths are inspected by the freight\nelevator"
    )


def test_a_turned_table_keeps_its_rows() -> None:
    drawn = [f"0 1 -1 0 {800 - place[1]} {place[0]} Tm ({cell}) Tj " for place, cell in table(ROWS)]
    assert page_of(drawn, rotate=90).split("\n") == [" | ".join(row) for row in ROWS]


def test_a_turned_note_in_the_margin_costs_nothing() -> None:
    margin = "0 1 -1 0 30 200 Tm (Draft of the harbour office, not to be cited) Tj "
    text = page_of([margin, *(text_at(place, cell) for place, cell in table(ROWS))])
    assert "Draft of the harbour office, not to be cited" in text
    assert "\n".join(" | ".join(row) for row in ROWS) in text


@pytest.mark.shared
@pytest.mark.parametrize("name", ["land90.pdf", "land270.pdf"])
def test_example_files(name: str) -> None:
    path = SHARED / "faults" / "06-rotated-page" / "docs" / name
    (document,) = (found for found in READER.read(path) if isinstance(found, ReadDocument))
    lines = document.text.split("\n")
    assert lines[:2] == [
        f"Landscape row at height {height} Rightcell {height}" for height in (560, 500)
    ]
    assert lines[-2] == "Two column sentence about the freight"
    assert lines[-1].startswith("elevator and its inspec")


EXPECTED = {
    "SPARSE-2024-INV-1234_borderless_table.pdf": (
        "Product Code | Location | Expected | Actual | Variance | Status",
        "SKU-8847 | A-12 | 450",
        "B-07 | 289 | -23",
        "SKU-6678 | Software | $200.00 | $42,000.00 | 2024-10-25 | High Value",
    ),
    "REPAIR-2022-INV-001_multipage.pdf": (
        "Body Labor | 2 | 150 | 300",
        "Sales Tax | 10.20% | 278.46",
        "Policy # POL-2022-555 | Model | Grand Cherokee",
    ),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", EXPECTED)
def test_tables_of_real_files(name: str) -> None:
    path = (
        SHARED / "office" / "markitdown" / "packages" / "markitdown" / "tests" / "test_files" / name
    )
    (document,) = (found for found in READER.read(path) if isinstance(found, ReadDocument))
    assert [row for row in EXPECTED[name] if row not in document.text.split("\n")] == []


def test_bullets_belong_to_the_items_behind_them() -> None:
    drawn: list[tuple[tuple[float, float], str]] = []
    for row in range(2):
        for column in range(2):
            for line in range(2):
                height = 700 - 34 * row - 14 * line
                drawn.append(((72 + 200 * column, height), "*"))
                drawn.append(((90 + 200 * column, height), f"item {row}{column}{line}"))
    text = page_of(text_at(place, shown) for place, shown in drawn)
    assert text.split("\n") == [
        "* item 000 * item 001 | * item 010 * item 011",
        "* item 100 * item 101 | * item 110 * item 111",
    ]


def test_columns_may_stand_close_to_each_other() -> None:
    """As on a printed spreadsheet, whose numbers end where the next column's words begin."""
    rows = (
        ("Ducks", 72.0),
        ("2019", 100.0),
        ("2020", 100.0),
        ("2021", 100.0),
    )
    drawn = [((left, 700 - 16 * at), text) for at, (text, left) in enumerate(rows)]
    names = (
        ("Freshwater birds", 130.0),
        ("120", 210.0),
        ("135", 210.0),
        ("150", 210.0),
    )
    drawn += [((left, 700 - 16 * at), text) for at, (text, left) in enumerate(names)]
    drawn.sort(key=lambda cell: -cell[0][1])
    text = page_of(text_at(place, shown) for place, shown in drawn)
    assert text.split("\n") == [
        "Ducks | Freshwater birds",
        "2019 | 120",
        "2020 | 135",
        "2021 | 150",
    ]


UPRIGHT_AS_SHOWN = {
    90: "0 1 -1 0 {y} {x}",
    180: "-1 0 0 -1 {x} {y}",
    270: "0 -1 1 0 {y} {x}",
}


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_superscripts_of_turned_pages_are_read_as_such(rotate: int) -> None:
    matrix = UPRIGHT_AS_SHOWN[rotate].format(x=300, y=300)
    drawn = f"{matrix} Tm (The warranty) Tj 5 Ts /F1 7 Tf (1) Tj 0 Ts /F1 12 Tf ( covers it.) Tj "
    assert page_of([drawn], rotate=rotate) == "The warranty¹ covers it."


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_lines_that_a_turned_page_shows_turned_keep_their_order(rotate: int) -> None:
    drawn = [text_at((72, 500 - 16 * at), f"Line {at} of the page") for at in range(4)]
    assert page_of(drawn, rotate=rotate) == "\n".join(f"Line {at} of the page" for at in range(4))


UNRULED = {
    "words and numbers": (
        (72, 220),
        (
            ("Item", "Price"),
            ("Crane", "120.00"),
            ("Pump", "35.50"),
            ("Winch", "9.90"),
            ("Rope", "4.00"),
        ),
    ),
    "words": (
        (72, 180, 320),
        (
            ("Name", "Town", "Role"),
            ("Ada Quay", "Hamburg", "Harbour master"),
            ("Bo Mole", "Rotterdam", "Crane driver"),
            ("Cy Pier", "Antwerp", "Pilot"),
            ("Di Dock", "Genoa", "Clerk"),
        ),
    ),
    "names and values": (
        (72, 180),
        (
            ("Invoice:", "2031-77"),
            ("Customer:", "North Harbour"),
            ("Street:", "Quay 7"),
            ("Due:", "12 May 2031"),
        ),
    ),
    "long texts and amounts": (
        (72, 380),
        (
            ("Description", "Amount"),
            ("Inspection of the northern crane", "1,200.00"),
            ("Repair of the pump at berth 4", "350.00"),
            ("Rope and anchor for the tug", "99.00"),
            ("Painting of the harbour office", "2,400.00"),
        ),
    ),
    "empty cells": (
        (72, 200, 290, 360),
        (
            ("Berth", "Depth", "Cranes", "Master"),
            ("North quay", "", "4", "Ada Quay"),
            ("South quay", "9 m", "", "Bo Mole"),
            ("East basin", "14 m", "6", "Cy Pier"),
            ("West basin", "", "", "Di Dock"),
        ),
    ),
}


def cells_by_column(
    lefts: Sequence[float], rows: Sequence[Sequence[str]], pitch: float
) -> list[tuple[tuple[float, float], str]]:
    return [
        ((left, 700 - pitch * at), row[column])
        for column, left in enumerate(lefts)
        for at, row in enumerate(rows)
        if row[column]
    ]


@pytest.mark.parametrize("pitch", [13, 16, 24])
@pytest.mark.parametrize("has_heads_first", [False, True])
@pytest.mark.parametrize("name", UNRULED)
def test_rows_without_rules_are_kept_where_the_file_draws_columns(
    name: str, has_heads_first: bool, pitch: float
) -> None:
    lefts, rows = UNRULED[name]
    drawn = cells_by_column(lefts, rows, pitch)
    if has_heads_first:
        drawn.sort(key=lambda cell: cell[0][1] != 700)
    text = page_of(text_at(place, cell) for place, cell in drawn)
    assert text.split("\n") == [" | ".join(filter(None, row)) for row in rows]


STORIES = {
    "en": (
        "The pelican boards the ferry at dawn and leaves the harbour before noon. It carries the"
        " mail of all islands and their market, and it returns in the evening with fish.",
        "The heron moors beside the old crane and waits for the tide. Its master signs the book of"
        " berths and pays what is due for a day. Then he walks up the hill to the office.",
        "A tug without a name tows the barges from the mill to the sea. In winter the ice closes"
        " the river for weeks, and the men mend nets and paint the boats.",
    ),
    "de": (
        "Der Vermieter gibt die Halle am ersten Tag des Monats in gereinigtem Zustand ab. Der"
        " Mieter meldet Schaden an Toren und Kranen innerhalb einer Woche nach dem Einzug.",
        "Die Miete ist monatlich im Voraus zu zahlen. Kommt der Mieter mit zwei Raten in Verzug,"
        " kann der Vermieter den Vertrag ohne Frist beenden und die Halle betreten.",
        "Die Kaution von drei Monatsmieten wird verzinst und nach Ende der Mietzeit abgerechnet,"
        " sobald alle Schluessel in der Verwaltung des Hafens abgegeben sind.",
    ),
}


@pytest.mark.parametrize("is_by_line", [True, False])
@pytest.mark.parametrize("lefts", [(72, 225), (72, 225, 380)])
@pytest.mark.parametrize("language", STORIES)
def test_narrow_columns_of_prose_are_no_rows(
    language: str, lefts: Sequence[float], is_by_line: bool
) -> None:
    columns = [wrap(story, 22) for story in STORIES[language][: len(lefts)]]
    drawn = [
        ((left, 700 - 14 * at), line)
        for left, lines in zip(lefts, columns, strict=True)
        for at, line in enumerate(lines)
    ]
    if is_by_line:
        drawn.sort(key=lambda cell: -cell[0][1])
    text = page_of(text_at(place, line) for place, line in drawn)
    assert text.split("\n") == [line for lines in columns for line in lines]


def test_wide_cells_in_two_columns_are_rows() -> None:
    rows = (
        ("Company and branch of the tenant", "Address of the registered office"),
        ("Nordhafen Kranbau GmbH Hamburg", "Am Kai 12 in 20457 Hamburg Mitte"),
        ("Rheinische Schiffswerft Duisburg", "Hafenstrasse 77 in 47119 Duisburg"),
        ("Ostsee Logistik Service Rostock", "Warnowufer 3 in 18057 Rostock Nord"),
        ("Alpenland Transport Rosenheim", "Innstrasse 9 in 83022 Rosenheim"),
    )
    drawn = sorted(cells_by_column((72, 320), rows, 16), key=lambda cell: -cell[0][1])
    text = page_of(text_at(place, cell) for place, cell in drawn)
    assert text.split("\n") == [" | ".join(row) for row in rows]


@pytest.mark.parametrize(
    "lists",
    [
        (
            ("ADA A. QUAY, Hamburg", "BO MOLE, Bergen", "CY B. PIER, Genoa", "DI DOCK, Lisbon"),
            ("ED BUOY, Rotterdam", "FAY F. LOCK, Cork", "GUS WEIR, Antwerp", "HAL P. TIDE, Oslo"),
        ),
        (
            ("anchor, 12", "bale, 14", "barge, see tug", "berth, 3, 77", "boom, 41"),
            ("mast, 9", "mooring, 18", "net, 20", "pier, 5", "quay, 1, 22"),
        ),
    ],
    ids=["names", "index"],
)
def test_lists_in_two_columns_are_no_rows(lists: tuple[tuple[str, ...], ...]) -> None:
    rows = list(zip(*lists, strict=True))
    drawn = cells_by_column(
        (72, 300),
        rows,
        16,
    )
    text = page_of(text_at(place, cell) for place, cell in drawn)
    assert text.split("\n") == [entry for entries in lists for entry in entries]


@pytest.mark.parametrize("rotate", [90, 270])
def test_lines_above_a_table_on_a_turned_page_keep_their_order(rotate: int) -> None:
    """PDFium reverses the lines, but not the rows."""
    lines = [
        "Minutes of the harbour board",
        "The board has decided to repair the crane of the northern pier",
        "in spring, and to pay for it from the reserve.",
    ]
    drawn = [text_at((72, 700 - 20 * at), line) for at, line in enumerate(lines)]
    for at, row in enumerate(ROWS):
        for left, cell in zip(LEFT, row, strict=True):
            drawn.append(text_at((left, 600 - 20 * at), cell))
    rows = [" | ".join(row) for row in ROWS]
    assert page_of(drawn, rotate=rotate).split("\n") == lines + rows
