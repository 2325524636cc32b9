"""Queries that name a file."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.lexical.filenames import (
    DocumentNames,
    FilenameMatch,
    build_search_label,
    find_search_names,
)

NAMES = DocumentNames(
    [
        (1, "09-24-2019.pdf", ""),
        (2, "Lease of the quarry", "contracts/Lease 4711.pdf"),
        (3, "Node.js", "guides/intro.md"),
        (4, "Guide", "other/intro.md"),
        (5, "Notes", "notes.tar.gz"),
        (7, "Notes on records", "#archive/C#-notes.pdf"),
        (6, "12", ""),
    ]
)


@pytest.mark.parametrize(
    ("query", "documents", "rest"),
    [
        ("In 09-24-2019.pdf: the parties shall agree", {1}, "In the parties shall agree"),
        ('who ends "LEASE 4711.PDF"', {2}, "who ends"),
        ("contracts/lease 4711.pdf, deposit", {2}, "deposit"),
        ("what does intro.md say of ports", {3, 4}, "what does say of ports"),
        ("guides/intro.md ports", {3}, "ports"),
        ("compare 09-24-2019.pdf with lease 4711.pdf", {1, 2}, "compare with"),
        ("size of notes.tar.gz", {5}, "size of"),
        ("records in C#-notes.pdf", {7}, "records in"),
        ("archive/c#-notes.pdf: records", {7}, "archive/ records"),
    ],
)
def test_a_file_name_means_its_document_and_is_not_looked_for(
    query: str, documents: set[int], rest: str
) -> None:
    match = NAMES.match(query)
    assert (match.documents, match.text) == (documents, rest)


@pytest.mark.parametrize(
    "query",
    [
        "09-24-2019",
        "lease 4711",
        "node.js ports",
        "Lease of the quarry",
        "intro.mdx",
        "reintro.md",
        "pre-intro.md",
        "a.pdf",
        "e.g. 3.5 of the U.S. law",
        "12",
        "",
        ".",
        "intro .md",
        "4711.pdf2",
    ],
)
def test_other_words_mean_no_document(query: str) -> None:
    assert NAMES.match(query) == FilenameMatch(query)


def test_letters_written_apart_from_their_marks_are_the_same() -> None:
    names = DocumentNames([(1, "", "Vertra\u0308ge.pdf")])
    assert names.match("In Vertr\u00e4ge.pdf: the rent").documents == {1}
    assert names.match("In Vertra\u0308ge.pdf: the rent").text == "In the rent"


def test_a_query_of_nothing_but_names_is_looked_for_as_it_is() -> None:
    match = NAMES.match("09-24-2019.pdf, intro.md?")
    assert (match.text, match.documents) == ("09-24-2019.pdf, intro.md?", {1, 3, 4})
    assert match.names == ("09-24-2019.pdf", "intro.md")


@given(st.text(max_size=60))
@example("\uf900")  # which composition makes another sign of
def test_any_text_is_taken(text: str) -> None:
    match = NAMES.match(text)
    assert bool(match.documents) == bool(match.names)
    assert match.documents or match.text == text


@given(st.text(alphabet="ab .:-_'", max_size=20), st.text(alphabet="ab :'", max_size=20))
def test_a_name_set_apart_is_always_found(before: str, after: str) -> None:
    match = NAMES.match(f"{before} Lease 4711.pdf {after}")
    assert match.documents == {2}
    assert "4711" not in match.text or not {*before, *after} & {"a", "b", "_"}


@given(
    st.lists(st.tuples(st.integers(), st.text(max_size=30), st.text(max_size=30)), max_size=5),
    st.text(max_size=30),
)
def test_any_names_are_taken(documents: list[tuple[int, str, str]], query: str) -> None:
    found = DocumentNames(documents).match(query).documents
    assert found <= {key for key, _, _ in documents}


@pytest.mark.parametrize(
    "query", ["a." * 100_000, "." * 100_000 + "a.b" * 50_000, "a.pdf" + "." * 100_000]
)
def test_long_queries_of_dots_take_no_long_time(query: str) -> None:
    started = time.process_time()
    assert NAMES.match(query).documents == frozenset()
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("offers/Offer_Crane_2031.docx", ("Offer_Crane_2031",)),
        ("Lease 2.1", ("Lease 2.1",)),  # no ending
        ("notes.tar.gz", ("notes",)),
        ("notes.tar.gz/Plan.pdf", ("notes", "Plan")),
        ("LeaseNorthHarbour2031.pdf", ("LeaseNorthHarbour2031 Lease North Harbour 2031",)),
        ("ÜbergabeÖlmühle.txt", ("ÜbergabeÖlmühle Übergabe Ölmühle",)),
        ("ОтчётМай.txt", ("ОтчётМай Отчёт Май",)),
        ("teststand3.pdf", ("teststand3 teststand 3",)),
        ("prüfstand12b.pdf", ("prüfstand12b prüfstand 12b",)),
        ("2031v2.docx", ("2031v2 2031 v2",)),
        ("report2031Q3.xlsx", ("report2031Q3 report 2031 Q3",)),
        ("V2Offer.docx", ("V2Offer V2 Offer",)),
        ("договор7.txt", ("договор7 договор 7",)),
        ("Plan v2 12mm h264.txt", ("Plan v2 12mm h264",)),
        ("GmbH McDonald iPhone.txt", ("GmbH McDonald iPhone",)),
        ("Q3%20Report%C3%BCber.pdf", ("Q3 Reportüber",)),
        ("100%25 %ff.pdf", ("100%  ",)),
        ("North.zip/plans/Crane.pdf", ("North", "Crane")),
        ("Ida.mbox/0001.eml", ("Ida",)),  # a number is no name
        ("Ida.mbox/0001.eml/Plan.pdf", ("Ida", "Plan")),
        ("letter.eml/Plan.pdf", ("Plan",)),  # the letter is a document of its own
        ("North.zip/North.txt", ("North",)),
        ("", ()),
    ],
)
def test_the_names_by_which_a_file_is_found(path: str, names: tuple[str, ...]) -> None:
    assert find_search_names(path) == names


def test_a_filename_counts_twice_in_addition_to_the_title() -> None:
    assert build_search_label("The lease", "a/North.pdf") == "The lease\nNorth\nNorth"
    assert build_search_label(" ", "a/North.pdf") == "North\nNorth"
    assert build_search_label("The lease", "") == "The lease"
    assert build_search_label("", "") == ""
