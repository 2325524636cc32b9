"""Queries that documents hold, asked of these documents: what is taken out of them, and what
does not count as wrong.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from fixtures.records import build_chunk, build_document
from fixtures.stored import put_document

from engine.core.records import Chunk, Document, DocumentQuery, Origin
from engine.evaluation.document_set import NearCopies, group_by_text, judgment_of
from engine.evaluation.judgments import clusters_of
from engine.project.store.store import Store
from engine.queries.from_documents import strip_chunk, strip_chunks

TEXT = (
    "Berths for visitors\nBoats pay. Berths for visitors lie north, said Berths, for  Visitors in"
    " short."
)


def chunk(
    row: int,
    document: int,
    text: str,
    start: int = 0,
    headings: tuple[str, ...] = (),
    context: str = "",
) -> Chunk:
    return build_chunk(
        text,
        row,
        document,
        start=start,
        headings=headings,
        context=context,
    )


def document(
    row: int,
    title: str = "",
    text: str = TEXT,
) -> Document:
    return build_document(
        "a.md",
        text,
        title=title,
        id=row,
    )


def document_query(
    text: str, start: int = -1, end: int = -1, origin: Origin = "heading", chunk_id: int | None = 1
) -> DocumentQuery:
    return DocumentQuery(
        text,
        origin,
        chunk_id,
        1,
        start,
        end,
        1,
    )


PLACED = document_query("Berths for visitors", 0, 19)


@pytest.mark.parametrize(
    ("query", "context", "remaining"),
    [
        (PLACED, "", TEXT[19:]),  # short: from its place alone
        (PLACED, "Harbour > BERTHS for visitors\n", f"Harbour\n{TEXT[19:]}"),
        (PLACED, "Berths for visitors\n", TEXT[19:]),
        (PLACED, "Fees for visitors\n", f"Fees for visitors\n{TEXT[19:]}"),
        (
            document_query("said Berths for Visitors"),
            "",
            "Berths for visitors\nBoats pay. Berths for visitors lie north,  in short.",
        ),
        (
            document_query("BERTHS for visitors"),
            "",
            TEXT[20:],
        ),  # a line of its own, whatever its place
        (document_query("Fees by length of boat"), "Harbour > Fees\n", f"Harbour > Fees\n{TEXT}"),
        (document_query("Quarterly report: berths"), "Berths — quarterly REPORT\n", TEXT),
    ],
)
def test_the_text_asked_is_taken_out(
    query: DocumentQuery,
    context: str,
    remaining: str,
) -> None:
    former = chunk(
        1,
        1,
        TEXT,
        context=context,
    )
    stripped = strip_chunk(former, [query])
    assert stripped.embedded_text == remaining
    assert (stripped is former) == (remaining == context + TEXT)
    if stripped is not former:
        assert stripped.content_hash == sha256(remaining.encode()).hexdigest()
    assert (stripped.id, stripped.text, stripped.start, stripped.end) == (1, TEXT, 0, len(TEXT))


def test_several_queries_go_together() -> None:
    queries = [
        PLACED,
        document_query("Boats", 20, 25),
        document_query("for visitors\nBoats", 7, 25),
    ]
    assert strip_chunk(chunk(1, 1, TEXT), queries).embedded_text == TEXT[25:]


def test_a_query_is_removed_from_the_chunks_of_its_document_that_hold_a_part_of_it() -> None:
    assert (
        strip_chunk(chunk(2, 1, "for visitors\nBoats pay.", 7), [PLACED]).embedded_text
        == "\nBoats pay."
    )
    for other in (chunk(2, 1, "Boats pay.", 20), chunk(2, 2, f"No {TEXT}")):
        assert strip_chunk(other, [PLACED]) is other


def test_queries_are_removed_from_many_chunks_as_from_few(store: Store) -> None:
    rows = [put_document(store, ["One: fees of the harbour.", TEXT], path) for path in ("a", "b")]
    put_document(store, ["Fees of the harbour for boats."], "c")
    query = DocumentQuery(
        "Fees of the harbour",
        "heading",
        None,
        rows[0],
        written_in=rows[1],
    )
    few = strip_chunks(store.chunks(), [query])
    many = strip_chunks(store.chunks(in_memory=1), [query])
    assert [stripped.embedded_text for stripped in few] == ["One: .", TEXT] * 2 + [
        "Fees of the harbour for boats."
    ]
    assert [stripped.embedded_text for stripped in many] == [
        stripped.embedded_text for stripped in few
    ]
    assert [stripped.content_hash for stripped in many] == [
        stripped.content_hash for stripped in few
    ]
    assert few[0].content_hash == sha256(b"One: .").hexdigest()


@pytest.mark.parametrize("at_once", [3, 100])
def test_near_copies(at_once: int) -> None:
    chunks = [
        chunk(1, 1, "Boats pay.", headings=("Fees of the harbour for boats",)),
        chunk(2, 1, "Boats pay again.", headings=("Fees of the harbour for boats",)),
        chunk(3, 2, "Ships pay.", headings=("Harbour", "FEES for boats of the Hárbour!")),
        chunk(4, 2, "Ships sail.", headings=("Harbour", "Fees of harbours")),
        chunk(5, 3, "See: fees of the\nharbour for boats, above."),
        chunk(6, 3, "The fees for boats of the harbour."),
        chunk(7, 4, "One."),
        chunk(8, 4, "Two."),
    ]
    documents = [
        document(row, title)
        for row, title in enumerate(("A", "B", "C", "The fees of the harbour for boats"), 1)
    ]
    query = document_query("Fees of the harbour for boats")
    copies = NearCopies(
        documents,
        chunks,
        [query],
        [query],
        in_memory=at_once,
    )
    assert copies.find_copies(query) == {2, 3, 5, 7, 8}
    whole = document_query(
        "Fees of the harbour for boats",
        origin="title",
        chunk_id=None,
    )
    assert copies.find_copies(whole) == {3, 5, 7, 8}  # every chunk of its document answers
    assert copies.find_copies(document_query("Ships sail")) == frozenset()  # two words, by chance
    assert copies.find_copies(document_query("nothing of this kind")) == frozenset()


def test_who_links_with_a_query_for_its_text_is_not_wrong() -> None:
    chunks = [
        chunk(1, 1, "Hulls are kept dry."),
        chunk(2, 2, "See winter storage."),
        chunk(3, 2, "See winter."),
        chunk(4, 3, "Winter storage of hulls."),
    ]
    link = DocumentQuery(
        "Winter storage",
        "link",
        None,
        1,
        4,
        18,
        2,
    )
    copies = NearCopies(
        [document(row, "") for row in (1, 2, 3)],
        chunks,
        [link],
        [link],
    )
    assert copies.find_copies(link) == {2}


def test_what_answers_the_same_question_in_a_copy_is_not_wrong() -> None:
    chunks = [
        chunk(1, 1, "In the office."),
        chunk(2, 2, "In the office!"),
        chunk(3, 2, "Elsewhere."),
        chunk(4, 3, "Far."),
    ]
    documents = [
        document(1, "Fees of boats"),
        document(2, "Fees of boats 2024"),
        document(3, "Boats of fees"),
    ]
    first = document_query("Where do boats pay?", origin="faq")
    term = document_query("Due date", origin="glossary")
    copied = [replace(query, chunk_id=2, document_id=2, written_in=2) for query in (first, term)]
    title = document_query(
        "Fees of boats",
        origin="title",
        chunk_id=None,
    )
    queries = [
        first,
        term,
        *copied,
        title,
    ]
    copies = NearCopies(documents, chunks, queries, queries)  # as once all is taken out
    assert copies.find_copies(first) == copies.find_copies(term) == {2}
    assert copies.find_copies(copied[0]) == {1}
    assert copies.find_copies(title) == {2, 3, 4}  # a longer title that has all its words


def test_four_of_five_words_make_a_near_copy_and_three_of_four_do_not() -> None:
    chunks = [
        chunk(1, 1, "One."),
        chunk(2, 2, "Two.", headings=("red green blue white",)),
        chunk(3, 2, "Three.", headings=("red green blue",)),
    ]
    five = document_query("red green blue white black")
    four = document_query("red green blue grey")
    copies = NearCopies(
        [document(1, "A"), document(2, "B")],
        chunks,
        [five, four],
        [five, four],
    )
    assert copies.find_copies(five) == {2}
    assert copies.find_copies(four) == frozenset()


def test_a_title_that_several_documents_share_is_asked_once_and_any_of_them_is_right() -> None:
    shared = [DocumentQuery("Fees of the harbour", "title", None, row, id=row) for row in (1, 2)]
    other = document_query(
        "Fees",
        origin="title",
        chunk_id=None,
    )
    heading = document_query("Fees of the harbour", chunk_id=7)
    shared[1] = replace(shared[1], text="FEES of the  harbour")
    groups = group_by_text([shared[0], other, heading, shared[1]], [chunk(7, 1, "Boats pay.")])
    assert [len(same) for same in groups] == [2, 1, 1]
    judgments = [judgment_of(same, {1: 1, 2: 2}) for same in groups]
    assert [(judgment.level, judgment.grades) for judgment in judgments] == [
        ("document", {1: 1, 2: 1}),
        ("document", {1: 1}),
        ("chunk", {7: 1}),
    ]


def test_a_heading_over_the_same_passage_in_copies_is_asked_once() -> None:
    chunks = [
        replace(chunk(row, document, "Boats pay."), content_hash=content)
        for row, document, content in ((1, 1, "x"), (2, 2, "x"), (3, 3, "y"), (4, 4, "x"))
    ]
    first, copied, changed = (
        replace(document_query("Fees of boats", chunk_id=row), document_id=row, written_in=row)
        for row in (1, 2, 3)
    )
    other = replace(
        document_query("Who pays?", chunk_id=4),
        document_id=4,
        written_in=4,
    )
    groups = group_by_text([first, changed, copied, other], chunks)
    assert groups == [(first, copied), (changed,), (other,)]
    judgments = [judgment_of(same, {1: 1, 2: 1, 3: 1, 4: 4}) for same in groups]
    assert [judgment.grades for judgment in judgments] == [{1: 1, 2: 1}, {3: 1}, {4: 1}]
    assert clusters_of(judgments).tolist() == [1, 1, 4]
