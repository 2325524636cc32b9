"""HTML pages: work that grows with their length alone, however they nest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.core.records import ReadDocument
from engine.corpus.formats.html import READER, decode_page, find_declared_encoding, render_text


def read(page: str | bytes) -> ReadDocument:
    (document,) = READER.read(Path("page.html"), page.encode() if isinstance(page, str) else page)
    return document


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How many functions are called within, as the last item."""
    calls = [0]

    def count(
        _frame: object,
        event: str,
        _argument: object,
    ) -> None:
        calls[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(
    ("piece", "end"),
    [
        ("<table><tr><td>", "pelican"),
        ("<table><tr><td>a<td>b<caption>", "pelican"),
        ("<table><tr><th>x<td><table><tr>", "pelican"),
        ("<table><tr><th>x<div><tr><td>a<td>b", "pelican"),
        ("<blockquote><h1>a", "pelican"),
        ("<div>", "pelican"),
        ("<wbr>", "pelican"),
        ("<svg><text>a", "<p>pelican"),
    ],
)
def test_work_grows_with_the_length_of_a_page_however_it_nests(piece: str, end: str) -> None:
    counts = []
    for times in (300, 1200):
        with counted_calls() as calls:
            text = render_text(piece * times + end)
        assert "pelican" in text
        counts.append(calls[0])
    assert counts[1] < 6 * counts[0]


def test_words_of_a_drawing_within_others_are_reported_once() -> None:
    assert read("<p>See<svg><text>Pier<text>9</text></text></svg></p>").text == "See\n\nPier\n\n9"


@pytest.mark.parametrize(
    "page",
    [
        b"<meta " * 200_000 + b"><p>The pelican.",
        b"<p>The pelican." + b"<meta " * 200_000,
        b"<?xml " + b"encoding='" * 20_000 + b"><p>The pelican.",
    ],
)
def test_declarations_that_never_end_are_passed_over(page: bytes) -> None:
    assert "The pelican." in decode_page(page, Path("page.html"))[0]


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        (b'<html><head><meta charset="KOI8-R">', "koi8-r"),
        (
            b'<META http-equiv=Content-Type content="text/html; charset=windows-1252">',
            "windows-1252",
        ),
        (b"<meta name=author content=x><meta\n charset = 'utf-8' />", "utf-8"),
        (b'\n<?xml version="1.0" encoding="ISO-8859-2"?><html>', "iso-8859-2"),
        (b"<script>" + b"x" * 100_000 + b"</script><meta charset=utf-8>", "utf-8"),
        (b"<metadata charset=x><p>charset=y", ""),
        (b"<meta charset=", ""),
        (b"", ""),
    ],
)
def test_the_encoding_that_a_page_names(page: bytes, encoding: str) -> None:
    assert find_declared_encoding(page) == encoding


def test_spans_make_no_row_wider_than_a_page_could_be() -> None:
    spanning = "<td colspan=50 rowspan=50>a" * 20
    text = read(f"<table><tr><th>Pier</th></tr>{f'<tr>{spanning}</tr>' * 60}</table>").text
    rows = text.split("\n")
    assert len(rows) == 61
    assert rows[1] == "a" + " | a" * 19
    assert set(rows[2:51]) == {"a" + " | a" * 23}  # four of the row above span 200 columns


def test_a_long_name_of_a_column_is_reported_in_full_once() -> None:
    name = "pelican " * 100
    text = read(f"<table><tr><th>{name}<th>Depth{'<tr><td>a<td>12' * 50}</table>").text
    assert text.count("pelican") == 100 + 50 * 25
    assert text.split("\n")[1] == f"{' '.join(['pelican'] * 25)}…: a | Depth: 12"


def test_a_cell_outside_a_row_and_rows_in_a_block_are_rows() -> None:
    assert read("<table><th>Pier<td>North</table>").text == "Pier | North"
    page = "<table><center><tr><td>a<td>b</tr><tr><td>c<td>d</tr></center></table>"
    assert read(page).text == "a | b\nc | d"


def test_all_that_a_page_shows_is_text_but_what_it_calls_navigation() -> None:
    page = (
        "<header><a>Print</a></header><nav><a>Home</a></nav><div class=menu><a>Harrow</a></div>"
        "<p>It rests.</p><footer>\u00a9 Ola</footer>"
    )
    assert read(page).text == "Print\n\nHarrow\n\nIt rests.\n\n\u00a9 Ola"


def test_a_title_in_the_header_of_an_article_is_a_heading() -> None:
    found = read("<article><header><h2><a>The pelican</a></h2></header><p>It rests.</p></article>")
    assert [(heading.start, heading.level, heading.title) for heading in found.headings] == [
        (0, 2, "The pelican")
    ]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<ol><li>Berths<li>Pilots</ol><ol><li>Fees</ol>", "1. Berths\n2. Pilots\n1. Fees"),
        (
            "<ol start=3><li>a<li value=7>b<li>c<ul><li>u</ul><ol type=a><li>d<li>e</ol></ol>",
            "3. a\n7. b\n8. c\n- u\na. d\nb. e",
        ),
        ("<ol type=I start=x><li>a<li>b</ol><ol start=0><li>c", "I. a\nII. b\n0. c"),
        (
            "<ol><li><h2>Scope</h2><p>It rests.</p></li><li><p>Fees</p><p>are due.</p></li></ol>",
            "1. Scope\n\nIt rests.\n\n2. Fees\n\nare due.",
        ),
        ("<ol><li></li><li><div></div>b</ol><p>after</p>", "2. b\n\nafter"),
        ("<ul><li></li></ul><p>after</p>", "after"),
        ("<ul><li><h3>Tern</h3></ul><h3></h3><p>after</p>", "Tern\n\nafter"),
    ],
)
def test_items_of_lists_are_reported_with_what_a_page_shows_before_them(
    page: str, text: str
) -> None:
    assert render_text(page) == text


def test_headings_in_numbered_lists_are_called_with_their_numbers() -> None:
    document = read("<ol><li><h2>Scope</h2><p>It rests.</p><li><h2>Fees</h2></ol>")
    assert [(heading.level, heading.title) for heading in document.headings] == [
        (2, "1. Scope"),
        (2, "2. Fees"),
    ]
    assert all(
        document.text.startswith(heading.title, heading.start) for heading in document.headings
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ('Name<input value="Kowalski">Ort<input type=TEXT value=Ulm>', "Name Kowalski Ort Ulm"),
        ('a<input type=hidden value="x"><input type=password value="y">b', "a b"),
        ('<input type=submit value="Send"><input type=date value="2031-05-17">', "2031-05-17"),
        ("<textarea>Two\n lines</textarea>", "Two\n lines"),
        ("<input type=checkbox checked>rope<input type=radio>oil", "\u2611 rope oil"),
        ("<select><option>red<option selected>blue<option>green</select>", "blue"),
        ("<select><option>red</option><option>blue</option></select>", "red"),
        (
            "<select multiple><optgroup label=x><option>red<option selected>blue</optgroup>"
            "<option selected>green</select>",
            "blue green",
        ),
        ("a<select multiple><option>red</select><datalist><option>blue</datalist>b", "a b"),
        (
            "<table><tr><th>Item<th>Count<tr><td><input value=Bolt><td><input value=40></table>",
            "Item | Count\nItem: Bolt | Count: 40",
        ),
    ],
)
def test_a_form_is_read_as_it_is_filled_in(form: str, text: str) -> None:
    assert render_text(f"<html><body><form>{form}</form></body></html>") == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<label>Street</label><span>Quay 5</span>", "Street Quay 5"),
        ("<app-label>Street</app-label><app-value>Quay 5</app-value>", "Street Quay 5"),
        (
            "<a-card><template shadowrootmode=open><style>p{}</style><p>Inside</p></template>Out",
            "Inside\n\nOut",
        ),
        ("<template>Inside</template>Outside", "Outside"),
        ("<div>News " + "&#847; &zwnj; &nbsp; &shy; " * 20 + "</div>Hello", "News\n\nHello"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
    ],
)
def test_what_pages_lay_out_as_boxes_is_read_apart(page: str, text: str) -> None:
    assert render_text(f"<html><body>{page}</body></html>") == text
