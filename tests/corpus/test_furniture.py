"""Running headers, footers and page numbers of PDFs."""

from __future__ import annotations

from engine.corpus.furniture import without_furniture
from engine.corpus.structure import from_pages

BODY = ["The pelican boards.", "The heron moors.", "The tern rests.", "The gull waits."]


def test_headers_footers_and_page_numbers_are_taken_away() -> None:
    pages = [f"Harbour plan\n{text}\nPage {n} of 4\n" for n, text in enumerate(BODY, 1)]
    assert without_furniture(pages, [1, 2, 3, 4]) == BODY
    numbers = [f"{text}\n{n + 17}" for n, text in enumerate(BODY, 1)]
    assert without_furniture(numbers, [1, 2, 3, 4]) == BODY


def test_a_chapters_head_is_known_by_the_page_that_it_counts() -> None:
    pages = [f"{10 + n} 2.{n // 5}. Moorings\n{text}" for n, text in enumerate(BODY, 1)] + [
        f"{n}. Rule" for n in (9, 4, 7, 1)
    ]
    kept = without_furniture(pages, range(1, 9))
    assert kept[:4] == BODY
    assert kept[4:] == ["9. Rule", "4. Rule", "7. Rule", "1. Rule"]


def test_what_only_looks_alike_stays() -> None:
    tables = [f"Table {n * n}\n{text}" for n, text in enumerate(BODY, 1)]
    assert without_furniture(tables, [1, 2, 3, 4]) == tables
    same = ["Nothing to report."] * 4
    assert without_furniture(same, [1, 2, 3, 4]) == same
    two = ["Harbour plan\nOne.", "Harbour plan\nTwo."]
    assert without_furniture(two, [1, 2]) == two
    inside = [f"{text}\nA.\nHarbour plan\nB.\n{text}" for text in BODY]
    assert without_furniture(inside, [1, 2, 3, 4]) == inside


def test_pages_begin_where_they_do_without_their_headers() -> None:
    content = "".join(f"\n\x02page {n}\x03\nHarbour plan\n{text}\n{n}" for n, text in enumerate(BODY, 1))
    text = from_pages(content, "page")
    assert text.text == "\n\n".join(BODY)
    assert [text.text[page.start :].split("\n")[0] for page in text.pages] == BODY
