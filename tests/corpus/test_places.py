"""Where the pages of a Word file begin."""

from __future__ import annotations

from collections.abc import Sequence

from engine.corpus.places import place_pages
from engine.corpus.structure import Text

FILLER = "The harbour has berths for all of them and more. " * 40


def starts(text: str, pages: Sequence[str]) -> dict[int, str]:
    placed = place_pages(Text(text), pages)
    return {page.number: placed.text[page.start :].split("\n")[0][:24] for page in placed.pages}


def test_a_table_of_contents_is_not_taken_for_the_pages_that_it_names() -> None:
    pages = [
        f"Contents\n\nChapter Two\n\nChapter Three\n\nPreface. {FILLER}",
        f"Chapter Two\n\nThe pelican boards. {FILLER}",
        f"Chapter Three\n\nThe heron moors. {FILLER}",
    ]
    text = "\n\n".join(pages)
    placed = place_pages(Text(text), pages)
    assert [text[: page.start].count("Chapter Three") for page in placed.pages] == [0, 1, 1]
    assert [page.start for page in placed.pages] == [0, len(pages[0]) + 2, len(pages[0]) + len(pages[1]) + 4]


def test_pages_that_begin_alike_are_distinguished_by_their_place() -> None:
    pages = [f"Minutes\n\n{FILLER}" for _ in range(5)]
    text = "\n\n".join(pages)
    placed = place_pages(Text(text), pages)
    assert [page.start for page in placed.pages] == [number * (len(pages[0]) + 2) for number in range(5)]
    alone = ["Contents\n\nAnnex\n\nAnnex", FILLER, "Annex", FILLER]
    placed = place_pages(Text("\n\n".join(alone)), alone)
    assert placed.text[placed.pages[2].start :].startswith("Annex\n\nThe harbour")


def test_lists_and_tables_may_be_written_in_another_way() -> None:
    text = f"{FILLER}\n\n- Two: pelican\n- Three\n\n{FILLER}\n\nBerth | Depth\nBerth: 1 | Depth: 2"
    assert starts(text, [FILLER, f"Two: pelican\nThree\n{FILLER}", "Berth\tDepth\n1\t2"]) == {
        1: FILLER[:24],
        2: "- Two: pelican",
        3: "Berth | Depth",
    }


def test_pages_without_text_and_pages_that_are_not_found_have_no_place() -> None:
    assert starts(f"One {FILLER}\n\nFour {FILLER}", [f"One {FILLER}", " ", "Elsewhere", f"Four {FILLER}"]) == {
        1: f"One {FILLER}"[:24],
        4: f"Four {FILLER}"[:24],
    }
    assert starts("One.", ["One."]) == {}
