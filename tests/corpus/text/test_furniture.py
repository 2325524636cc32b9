"""Running headers, footers and page numbers of PDFs: what goes, and what must not."""

from __future__ import annotations

import pytest

from engine.corpus.text.blocks import join_pages
from engine.corpus.text.furniture import remove_furniture

BIRDS = [
    "pelican",
    "heron",
    "tern",
    "gull",
    "eider",
    "avocet",
    "plover",
    "curlew",
]
FOUR = [1, 2, 3, 4]


def body(bird: str) -> str:
    return "\n".join(
        f"The {bird} {does}." for does in ("boards", "moors", "rests", "waits", "dives", "calls")
    )


BODY = [body(bird) for bird in BIRDS[:4]]


def test_headers_and_footers_stay_once_and_page_numbers_go() -> None:
    pages = [f"Harbour plan\n{text}\nPage {n} of 4\n" for n, text in zip(FOUR, BODY, strict=True)]
    assert remove_furniture(pages, FOUR) == [f"Harbour plan\n{BODY[0]}", *BODY[1:]]
    for form in ("{}", "- {} -", "{}/30", "Seite {} von 30", "\u7b2c {} \u9875"):
        numbered = [f"{text}\n{form.format(n + 17)}" for n, text in zip(FOUR, BODY, strict=True)]
        assert remove_furniture(numbered, FOUR) == BODY, form
    footed = [f"{text}\nHarbour plan \u00b7 Page {n}" for n, text in zip(FOUR, BODY, strict=True)]
    assert remove_furniture(footed, FOUR) == [f"{BODY[0]}\nHarbour plan \u00b7 Page 1", *BODY[1:]]


def test_a_number_among_words_is_no_page_number_unless_it_is_called_one() -> None:
    texts = [body(bird) for bird in BIRDS]
    pages = [f"{10 + n} Chapter {1 + n // 5}. Moorings\n{text}" for n, text in enumerate(texts, 1)]
    assert remove_furniture(pages, range(1, 9)) == pages
    alternating = [
        f"{n + 10}\n{text}" if n % 2 else f"Moorings {n + 10}\n{text}"
        for n, text in enumerate(texts, 1)
    ]
    kept = [
        text if n % 2 else page
        for n, (text, page) in enumerate(zip(texts, alternating, strict=True), 1)
    ]
    assert remove_furniture(alternating, range(1, 9)) == kept


@pytest.mark.parametrize("lines", [0, 6])
def test_what_counts_up_from_page_to_page_is_no_page_number(lines: int) -> None:
    for form in (
        "Invoice No. {1041}\n{text}\nPayable at {1041}",
        "Question {1}\n{text}\nGive {bird} reasons.",
        "{11} berths\n{text}\nMeasured value {11}",
        "Invoice No.\n{1041}\n{text}\nPelican Ltd",
        "{text}\nInvoice No.\n{1041}",
        "{text}\nPelican | {1041}\n{11} %",
    ):
        pages = []
        for n, bird in enumerate(BIRDS):
            text = form.replace("{text}", "\n".join(body(bird).split("\n")[:lines])).replace(
                "{bird}", bird
            )
            for start in (1041, 11, 1):
                text = text.replace(f"{{{start}}}", str(start + n))
            pages.append(text)
        words = " ".join(remove_furniture(pages, range(1, 9))).split()
        missing = {word for page in pages for word in page.split()} - set(words)
        assert not missing, form


def test_a_question_is_no_page_number_where_the_pages_have_their_own() -> None:
    pages = [f"Question {n}\n{text}\n{n}" for n, text in zip(FOUR, BODY, strict=True)]
    assert remove_furniture(pages, FOUR) == [
        f"Question {n}\n{text}" for n, text in zip(FOUR, BODY, strict=True)
    ]


def test_pages_of_few_lines_stay_as_they_are() -> None:
    for form in (
        "Site {bird}\nMeasured value {n}\nComment none",
        "Harbour plan\nThe {bird}.\n{n}",
        "Nothing to report.",
    ):
        pages = [form.format(bird=bird, n=n) for n, bird in enumerate(BIRDS, 1)]
        assert remove_furniture(pages, range(1, 9)) == pages


def test_what_only_looks_alike_stays() -> None:
    tables = [f"Table {n * n}\n{text}" for n, text in enumerate(BODY, 1)]
    assert remove_furniture(tables, FOUR) == tables
    two = [f"Harbour plan\n{text}" for text in BODY[:2]]
    assert remove_furniture(two, [1, 2]) == two
    inside = [f"{text}\nHarbour plan\n{text}" for text in BODY]
    assert remove_furniture(inside, FOUR) == inside
    far = [
        f"{body(bird)}\n{7 + n if n in (1, 4, 8) else 500 - n * n}"
        for n, bird in enumerate(BIRDS, 1)
    ]
    assert remove_furniture(far, range(1, 9)) == far


def test_pages_begin_where_they_do_without_their_headers() -> None:
    text = join_pages({n: f"{text}\n{n}" for n, text in enumerate(BODY, 1)})
    assert text.text == "\n\n".join(BODY)
    assert [text.text[page.start :].split("\n")[0] for page in text.pages] == [
        page.split("\n")[0] for page in BODY
    ]
