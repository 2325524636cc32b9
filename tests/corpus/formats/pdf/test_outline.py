"""Bookmarks of a PDF as headings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fixtures import office

from engine.core.records import Heading, Page, ReadDocument
from engine.corpus.formats.pdf import PdfReader
from engine.corpus.formats.pdf.outline import Bookmark, find_headings

TEXT = (
    "Contents\nBerths 1\n\n1. Berths\nThe pelican boards.\nSee Berths.\n\nKapitel 2 Pilots"
    " and\ntheir ships\nThe heron."
)
PAGES = (
    Page(0, 1, "page 1"),
    Page(19, 2, "page 2"),
    Page(62, 4, "page 4"),
)


def test_pages_of_the_example_begin_where_it_says() -> None:
    assert [TEXT[page.start :].split(" ")[0] for page in PAGES] == [
        "Contents\nBerths",
        "1.",
        "Kapitel",
    ]


@pytest.mark.parametrize("title", ["Berths", "1 Berths", "1. Berths", "berths", "A.1 Berths"])
def test_a_title_is_found_numbered_alike_or_not(title: str) -> None:
    assert find_headings([Bookmark(1, title, 2)], TEXT, PAGES) == (Heading(19, 1, title),)


def test_a_title_may_go_on_in_the_next_line() -> None:
    title = "2 Pilots and their ships"
    assert find_headings([Bookmark(2, title, 4)], TEXT, PAGES) == (Heading(62, 2, title),)


@pytest.mark.parametrize(
    "bookmark",
    [
        Bookmark(1, "Berths", 1),  # the line goes on
        Bookmark(1, "Berths.", 2),
        Bookmark(1, "Berths", 3),  # a page without text
        Bookmark(1, "Berths", 9),
        Bookmark(1, "pelican", 2),
    ],
)
def test_a_title_that_is_no_line_of_its_page_is_no_heading(bookmark: Bookmark) -> None:
    assert find_headings([bookmark], TEXT, PAGES) == ()


def test_equal_titles_are_found_one_after_the_other_and_headings_come_in_order() -> None:
    text = "Scope\na\nScope\nb\nAims"
    pages = (Page(0, 1, "page 1"),)
    bookmarks = [Bookmark(1, "Aims", 1), Bookmark(1, "Scope", 1)]
    assert find_headings(bookmarks, text, pages) == (Heading(16, 1, "Aims"),)
    assert find_headings(bookmarks[::-1] * 2, text, pages) == (
        Heading(0, 1, "Scope"),
        Heading(16, 1, "Aims"),
    )


def test_many_bookmarks_on_a_long_page_take_no_long_time() -> None:
    text = "word " * 200_000
    started = time.process_time()
    assert (
        find_headings([Bookmark(1, "word word nothing", 1)] * 10_000, text, (Page(0, 1, "page 1"),))
        == ()
    )
    assert time.process_time() - started < 5
    started = time.process_time()
    assert (
        find_headings(
            [Bookmark(1, f"word {n}", 1) for n in range(10_000)],
            text[:999],
            (Page(0, 1, "page 1"),),
        )
        == ()
    )
    assert time.process_time() - started < 1.5


def test_the_outline_of_a_file() -> None:
    content = office.pdf("Berths\nThe pelican boards.", "Pilots\nThe heron.")
    content = content.replace(b"<</Type/Catalog", b"<</Type/Catalog/Outlines 20 0 R")
    entries = (
        b"20 0 obj\n<</First 21 0 R/Last 22 0 R/Count 2>>\nendobj\n"
        b"21 0 obj\n<</Title(1 Berths)/Parent 20 0 R/Next 22 0 R/Dest[4 0 R/Fit]>>\nendobj\n"
        b"22 0 obj\n<</Title(Pilots)/Parent 20 0 R/Prev 21 0 R/Next 21 0 R/Dest[6 0"
        b" R/Fit]>>\nendobj\n"  # goes in a circle
    )
    (document,) = PdfReader().read(
        Path("a.pdf"), content.replace(b"xref\n", entries + b"xref\n", 1)
    )
    assert isinstance(document, ReadDocument)
    assert document.headings == (
        Heading(0, 1, "1 Berths"),
        Heading(document.text.index("Pilots"), 1, "Pilots"),
    )
    assert document.title == "Harbour plan"
