"""Tables, records and pages: rows that say no more than the file does, and all that it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.errors import unreadable
from fixtures.shown_numbers import numbers

from engine.core.records import ReadDocument
from engine.corpus.formats import find_reader
from engine.corpus.text.blocks import format_table


def read(name: str, content: str | bytes) -> ReadDocument:
    if isinstance(content, str):
        data = content.encode()
    else:
        data = content
    (document,) = find_reader(name.rpartition(".")[2]).read(Path(name), data)
    assert isinstance(document, ReadDocument)
    return document


@pytest.mark.parametrize(
    "rows",
    [
        [["Alice", "Bob"], ["Carol", "Dave"], ["Erin", "Frank"]],
        [["Name", "John"], ["City", "Paris"], ["Age", "42"]],
        [["Berth", "12 m"], ["North", "9 m"]],
        [["North", "open"], *[[f"Pier {n}", "open"] for n in "abcdefgh"]],
        [["Summary"], ["A long sentence about the piers."]],
        [["Invoice"], ["Name", "Lindner"], ["Postcode", "28195"]],
        [["Notes"], ["The", "quick", "brown", "fox"], ["1", "2"], ["7"], ["8"]],
        [["Berth", "Depth", "Berth", "Length"], ["North", "12", "South", "80"]],
        [["Client", "C-4"], ["Months", "24"], ["Price", "100"]],
        [["Client", "Ada"], ["Mail", "ada@quay.example"]],
        [["Lease A", "2029", "2030"], ["Lease B", "2031", "2032"]],
        [["Pier", "2029", "2031"], ["North", "5", "6"]],
    ],
)
def test_a_first_row_that_may_be_a_row_like_others_names_nothing(rows: list[list[str]]) -> None:
    assert format_table(rows) == "\n".join(" | ".join(row) for row in rows)


@pytest.mark.parametrize(
    ("rows", "last"),
    [
        ([["Berth", "Depth"], ["North", "12 m"]], "Berth: North | Depth: 12 m"),
        (
            [["Berth", "Note"], *[["North", "Here the pelican boards."]] * 2],
            "Berth: North | Note: Here the pelican boards.",
        ),
        (
            [["Berth", "State"], *[[f"Pier {n}", "open"] for n in "abcdefgh"]],
            "Berth: Pier h | State: open",
        ),
        ([["Berth", "", "Depth"], ["North", "x", "12"]], "North | x | 12"),
        (
            [["Pier", "Q1 2031", "Q2 2031"], ["North", "5,5", "6"]],
            "Pier: North | Q1 2031: 5,5 | Q2 2031: 6",
        ),
        (
            [["Pier", "2030", "2031"], ["North", "5", "1999.5"]],
            "Pier: North | 2030: 5 | 2031: 1999.5",
        ),
        (
            [["Name", "Mail", "Town"], ["Ada", "ada@quay.example", "Ulm"]],
            "Name: Ada | Mail: ada@quay.example | Town: Ulm",
        ),
        (
            [["Plan 2031"], ["Client", "Ada"], ["Berth", "Depth", "Ship"], ["North", "12", "Gull"]],
            "Berth: North | Depth: 12 | Ship: Gull",
        ),
        (
            [["Ship", "Label", "Label", "Year"], ["Gull", "red", "oil", "2031"]],
            "Ship: Gull | Label: red | Label: oil | Year: 2031",
        ),
    ],
)
def test_a_first_row_over_cells_of_another_sort_names_the_columns(
    rows: list[list[str]], last: str
) -> None:
    assert format_table(rows).split("\n")[-1] == last


def test_a_row_with_cells_only_beyond_its_named_columns_begins_with_a_cell() -> None:
    rows = [["Berth", "Depth"], ["", "", "closed", "see note"]]
    assert format_table(rows, headed=True) == "Berth | Depth\nclosed | see note"


def test_a_table_of_words_alone_is_reported_as_it_stands() -> None:
    assert (
        read("a.csv", "Alice,Bob\nCarol,Dave\nErin,Frank\n").text
        == "Alice | Bob\nCarol | Dave\nErin | Frank"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "Export of 3 May\nClient: Quay Ltd\n\nDay;Account;Sum\n1.5.31;4711;12,50\n"
            "2.5.31;12;3,75\n",
            "Export of 3 May\nClient: Quay Ltd\nDay | Account | Sum\n"
            "Day: 1.5.31 | Account: 4711 | Sum: 12,50\nDay: 2.5.31 | Account: 12 | Sum: 3,75",
        ),
        ("a\tb\n1,5\t2,5\n3,5\t4,5\n", "a | b\na: 1,5 | b: 2,5\na: 3,5 | b: 4,5"),
        ('"Name" , "Year"\n"Quay, Ada" , "1999"\n', "Name | Year\nName: Quay, Ada | Year: 1999"),
        (
            "Note\nVery good, thanks\nFine\nQuick\nYes\n",
            "Note\nVery good, thanks\nFine\nQuick\nYes",
        ),
        ('Berth,Note\nNorth,"a;b"\nSouth,"c;d"\n', "Berth | Note\nNorth | a;b\nSouth | c;d"),
        ("No|Note\n1|<p>Two <b>pel</b>icans</p>\n", "No | Note\nNo: 1 | Note: Two pelicans"),
    ],
)
def test_a_table_is_divided_by_what_divides_most_rows_alike(source: str, text: str) -> None:
    assert read("a.csv", source).text == text


def test_records_in_a_list_of_json_are_paragraphs() -> None:
    records = (
        '[{"name": "North", "note": "two\\npiers", "ships": [{"id": 7}]},'
        ' {"name": "South", "note": "<p>The <b>tern</b>s</p>", "at": [8.8, 53.1]}]'
    )
    assert read("a.json", records).text == (
        "name: North\nnote: two\npiers\nships.id: 7\n\nname: South\nnote: The terns\nat: 8.8, 53.1"
    )
    assert read("b.json", f'{{"berths": {records}}}').text == (
        "berths.name: North\nberths.note: two\npiers\nberths.ships.id: 7\n\n"
        "berths.name: South\nberths.note: The terns\nberths.at: 8.8, 53.1"
    )


def test_one_bad_line_leaves_the_others_of_json_lines() -> None:
    found = read("a.jsonl", '{"berth": "North"}\n{"berth": "pelican"}\n{"berth": "Sou')
    assert found.text == 'berth: North\n\nberth: pelican\n\n{"berth": "Sou'
    assert (found.format, numbers(found.note)) == ("jsonl", [3])


@pytest.mark.parametrize(
    "source", ['{"berth": "the pelican",\n // deep\n "depth": 12}', "{not json", '{"a": [1,']
)
def test_what_is_no_json_is_kept_as_it_stands(source: str) -> None:
    found = read("a.json", source)
    assert (found.text, found.format, bool(found.note)) == (source, "json", True)


def test_json_lines_may_be_strings_or_numbers() -> None:
    found = read("a.jsonl", '"Gr\\u00f6\\u00dfe: the pelican\\nsecond"\n"the heron"\n12\n')
    assert (found.text, found.format, found.note) == (
        "Größe: the pelican\nsecond\n\nthe heron\n\n12",
        "jsonl",
        "",
    )
    found = read("a.jsonl", '"the heron"\n"the tern"\n"the gu')
    assert (found.text, numbers(found.note)) == ('the heron\n\nthe tern\n\n"the gu', [3])


def test_json_is_reported_as_it_is_written() -> None:
    number = "7" * 5000
    assert (
        read("a.json", f'{{"n": {number}, "price": 1.50, "sure": true}}').text
        == f"n: {number}\nprice: 1.50\nsure: true"
    )
    assert "pelican" in read("a.json", '{"a":' * 900 + '"pelican"' + "}" * 900).text
    assert "pelican" in read("a.json", "[" * 90_000 + '"pelican"').text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<table><tr><td>un<b>believ</b>able H<sub>2</sub>O<br>so</td><td>x</td></tr></table>",
            "unbelievable H2O so | x",
        ),
        (
            "<table><tr><th>Part<th>Mark</tr><tr><td>P0<td>red</tr><tr><td>P1<td>blue</tr></table>",
            "Part | Mark\nPart: P0 | Mark: red\nPart: P1 | Mark: blue",
        ),
        (
            (
                "<table><thead><tr><td>Pier<td>Ship<td>Pilot</thead><tr><td"
                " rowspan=2>North<td>Gull<td>Ada<tr><td>Tern<td>Bo<tr><td"
                " colspan=2>both<td>Cy</table>"
            ),
            (
                "Pier | Ship | Pilot\nPier: North | Ship: Gull | Pilot: Ada\nPier: North | Ship:"
                " Tern | Pilot: Bo\nPier: both | Pilot: Cy"
            ),
        ),
        (
            (
                "<table><tr><th>Pier<th>Ship<th>Pilot<th>Area</tr><tr><td>1<td>Gull<td>Ada<td"
                " rowspan=2>North</tr><tr><td"
                " colspan=2>none</tr><tr><td>3<td>Tern<td>Bo<td>South</tr></table>"
            ),
            (
                "Pier | Ship | Pilot | Area\nPier: 1 | Ship: Gull | Pilot: Ada | Area: North\nPier:"
                " none | Area: North\nPier: 3 | Ship: Tern | Pilot: Bo | Area: South"
            ),
        ),
        (
            (
                "<table><tr><th>Pier<th>Ship</tr><tbody><tr><td>1<td rowspan=3>Gull</tr></tbody>"
                "<tbody><tr><td>2<td>Tern</tr><tr><td>3<td>Swan</tr></tbody></table>"
            ),
            "Pier | Ship\nPier: 1 | Ship: Gull\nPier: 2 | Ship: Tern\nPier: 3 | Ship: Swan",
        ),
        (
            (
                "<table><tr><th>Pier<th>Ship</tr><tr><td>1<td"
                " rowspan=2>Gull</tr><tr></tr><tr><td>3<td>Swan</tr></table>"
            ),
            "Pier | Ship\nPier: 1 | Ship: Gull\nPier: 3 | Ship: Swan",
        ),
        (
            "<table><tr><td><h1>One</h1><p>First.</p><h2>Sub</h2><p>Second.</p></td></tr></table>",
            "One\n\nFirst.\n\nSub\n\nSecond.",
        ),
        ("<table>loose <tr><td>a</td><td>b</td></tr></table><p>after</p>", "loose\na | b\n\nafter"),
        (
            "<article><p>Text</p><footer><p>Contract 4711 is valid.</p></footer></article>",
            "Text\n\nContract 4711 is valid.",
        ),
        (
            "<p>Text</p><footer>© 2031 Quay Ltd</footer><footer><a>Imprint</a></footer>",
            "Text\n\n© 2031 Quay Ltd\n\nImprint",
        ),
        ("<p>To</p><button>Sign</button><button>Send</button>", "To\n\nSign\n\nSend"),
        (
            (
                "<p>so <math><mi>E</mi><mo>=</mo><mi>m</mi><annotation>E=m</annotation></math>"
                " holds</p>"
            ),
            "so E=m holds",
        ),
        ("<object data=x><p>The pelican.</p></object>", "The pelican."),
        (
            "<p>See<svg><style>p{}</style><text>Pier <tspan>9</tspan></text></svg></p>",
            "See\n\nPier 9",
        ),
    ],
)
def test_nothing_that_a_page_shows_is_lost(page: str, text: str) -> None:
    assert read("a.html", page).text == text


def test_the_headings_of_a_page_that_is_one_table_are_headings() -> None:
    found = read(
        "a.html",
        "<table><tr><td><h1>One</h1><p>First.</p><h2>Sub</h2><p>Second.</p></td></tr></table>",
    )
    assert [(heading.level, heading.title) for heading in found.headings] == [
        (1, "One"),
        (2, "Sub"),
    ]


def test_pages_with_a_bad_byte_or_without_a_charset_are_read() -> None:
    assert read(
        "a.html", "<p>Größe für München</p>".encode() + b"<p>\xff \xc3\xbc</p>"
    ).text.startswith("Größe für München")
    assert (
        read("a.html", "<p>Пеликан ждёт корабль.</p>".encode("koi8-r")).text
        == "Пеликан ждёт корабль."
    )
    assert (
        read("a.html", "<meta charset=utf-8><p>Größe der Überschüsse</p>".encode("cp1252")).text
        == "Größe der Überschüsse"
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('id,note\n1,"a ""b"" c"\n2,"x\ny, z"\n', 'id: 1 | note: a "b" c\nid: 2 | note: x y, z'),
        ('id;note\n1;"a ""b"""\n2;c\n', 'id: 1 | note: a "b"\nid: 2 | note: c'),
        ("sep=;\r\nid;price\r\n1;1,50\r\n2;2,50\r\n", "id: 1 | price: 1,50\nid: 2 | price: 2,50"),
        ("sep=\t\nid\tprice\n1\t1,50\n2\t2\n", "id: 1 | price: 1,50\nid: 2 | price: 2"),
        ("SEP=|\nid|price\n1|1;50\n2|2\n", "id: 1 | price: 1;50\nid: 2 | price: 2"),
    ],
)
def test_cells_are_parted_as_spreadsheets_do(content: str, text: str) -> None:
    _, _, rows = read("a.csv", content).text.partition("\n")
    assert rows == text


HASHES = (
    "0a1b2c3d" * 8,
    "9f8e7d6c" * 8,
    "5a6b7c8d" * 8,
)
GENE = "GATTACA" * 40
FOLDER = "/home/ada/" + "Contracts_2031/Drafts-of-March/" * 8


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", "Name,Ort\nM&uuml;ller &amp; S&#246;hne,K&ouml;ln", "Müller & Söhne | Köln"),
        ("a.json", '{"name": "M&uuml;ller", "a": "x&y; R&D; a=1&copy=2"}', "R&D; a=1&copy=2"),
        ("a.json", '{"name": "J\\u00c3\\u00bcrgen"}', "name: Jürgen"),
        ("a.json", '{"name": "%s"}' % ("Qj1D" * 80), ""),
        ("a.json", '{"name": "%sContract terms"}' % (("Qj14" * 18 + " ") * 3), "Contract terms"),
        ("a.json", json.dumps({"name": GENE}), GENE),
        ("a.json", json.dumps({"name": FOLDER}), FOLDER),
        ("a.json", json.dumps({"name": " ".join(HASHES)}), " ".join(HASHES)),
    ],
)
def test_values_are_read_as_programs_mean_them(
    name: str,
    content: str,
    text: str,
) -> None:
    if text:
        assert text in read(name, content).text
    else:
        with unreadable("empty"):
            read(name, content)


def test_the_title_of_a_record_is_read_as_its_values() -> None:
    assert (
        read("a.json", '{"title": "J\\u00c3\\u00bcrgen &amp; Ada", "a": 1}').title == "Jürgen & Ada"
    )
