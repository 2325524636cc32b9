"""The split by document: stable, seeded, and never one-sided."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.records import build_document
from hypothesis import given
from hypothesis import strategies as st

from engine.core.records import Document, Query
from engine.queries.heldout import (
    UNTITLED_RUN,
    cap_queries,
    document_keys,
    group_keys,
    hold_out_documents,
    related_documents,
    split_documents,
    unrelated_documents,
)
from engine.queries.splitting import split_queries
from engine.settings.load import validate

SIDES = ("train", "validation", "heldout")


def named(count: int) -> dict[int, str]:
    return {number: f"folder/file{number}.txt" for number in range(count)}


def test_the_share_is_met_about() -> None:
    held = hold_out_documents(
        named(5_000),
        0.2,
        seed=1,
    )
    assert 0.18 < len(held) / 5_000 < 0.22


def test_adding_documents_moves_nobody() -> None:
    few = hold_out_documents(named(200), 0.3)
    many = hold_out_documents(named(400), 0.3)
    assert {document for document in many if document < 200} == few


def test_row_ids_do_not_matter_and_equal_keys_stay_together() -> None:
    keys = named(100)
    held = hold_out_documents(keys, 0.3)
    moved = {number + 1_000: key for number, key in keys.items()}
    assert hold_out_documents(moved, 0.3) == {number + 1_000 for number in held}
    doubled = keys | {number + 500: key for number, key in keys.items()}
    assert hold_out_documents(doubled, 0.3) == held | {number + 500 for number in held}


def test_the_seed_changes_the_split() -> None:
    assert hold_out_documents(named(100), 0.3, seed=1) != hold_out_documents(
        named(100), 0.3, seed=2
    )


@given(st.sets(st.text(), min_size=2, max_size=6), st.floats(0.001, 0.999), st.integers(0, 50))
def test_two_documents_or_more_leave_no_part_empty(keys, share, seed) -> None:
    documents = dict(enumerate(sorted(keys)))
    held = hold_out_documents(documents, share, seed)
    assert 0 < len(held) < len(documents)


def test_one_document_or_no_document() -> None:
    assert hold_out_documents({}, 0.5) == frozenset()
    assert hold_out_documents({3: "only"}, 0.001) == frozenset()


def test_capping_is_a_seeded_choice_that_hardly_changes_when_queries_come() -> None:
    keys = [f"query {number}" for number in range(500)]
    chosen = cap_queries(
        keys,
        50,
        seed=4,
    )
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 50
    assert cap_queries(keys, 50, seed=5) != chosen
    more = cap_queries(
        [*keys, "one more"],
        50,
        seed=4,
    )
    assert len(set(chosen) & set(more)) >= 49
    assert cap_queries(keys[:3], 50) == [0, 1, 2]


def store_of(documents: Sequence[Document]) -> Any:
    return SimpleNamespace(documents=lambda: documents, cached=lambda _name, compute: compute())


def test_what_is_in_use_is_decided_before_when_to_stop() -> None:
    """Of a single article's entries that are held out, none may only stop the training: nothing
    could be served.
    """
    documents = [
        build_document(
            f"corpus.jsonl#{n}",
            title=f"article {n // 3}",
            content_hash=str(n),
            external_id=str(n),
            id=n,
        )
        for n in range(36)
    ]
    queries = [Query(str(n), "question", n, n, "", "train") for n in range(36)]
    alone = 0
    for seed in range(40):
        context: Any = SimpleNamespace(
            store=store_of(documents),
            settings=validate({"training": {"seed": seed}, "evaluation": {"heldout_share": 0.15}}),
        )
        sides = {
            side: {
                q.document_id // 3 for q in split_queries(context, queries, []) if q.split == side
            }
            for side in SIDES
        }
        alone += len(sides["validation"] | sides["heldout"]) == 1
        assert sides["heldout"]
        assert not sides["heldout"] & sides["validation"]
    assert alone > 5, "no seed held out a single article"


def numbered(
    number: int, path: str, content: str, title: str = "", external: str | None = None
) -> Document:
    return build_document(
        path,
        title=title,
        content_hash=content,
        external_id=external,
        id=number,
    )


def test_copies_share_a_key_and_other_files_do_not() -> None:
    keys = document_keys(
        [numbered(2, "b.md", "same"), numbered(1, "a.md", "same"), numbered(3, "c.md", "other")]
    )
    assert keys == {1: "a.md", 2: "a.md", 3: "c.md"}


def test_entries_of_one_title_share_a_key() -> None:
    first = numbered(
        1,
        "corpus.jsonl#1",
        "x",
        "Report",
        "1",
    )
    two = numbered(
        2,
        "corpus.jsonl#2",
        "y",
        "Report",
        "2",
    )
    three = numbered(
        3,
        "corpus.jsonl#3",
        "z",
        "Letter",
        "3",
    )
    keys = document_keys([first, two, three])
    assert keys[1] == keys[2] != keys[3]


def test_untitled_neighbours_share_a_key_but_not_the_whole_corpus() -> None:
    keys = document_keys(
        [
            numbered(n, f"corpus.jsonl#{n}", str(n), "", str(n))
            for n in range(1, 2 * UNTITLED_RUN + 1)
        ]
    )
    assert len(set(keys.values())) == 2
    assert keys[1] == keys[UNTITLED_RUN] != keys[UNTITLED_RUN + 1]


def test_copies_versions_and_mails_of_a_thread_are_of_one_text() -> None:
    titles = [
        "Fees",
        "",
        "Berths for visitors",
        "Re: [Ticket 77] FEES",
        "Berths for boats",
        "",
        "",
        "Fees",
    ]
    contents = [
        "a",
        "b",
        "c",
        "d",
        "e",
        "c",
        "f",
        "g",
    ]
    documents = [
        numbered(row, f"{row}.md", content, title)
        for row, (title, content) in enumerate(zip(titles, contents, strict=True), 1)
    ]
    unrelated = {
        2: 2,
        5: 5,
        7: 7,
    }
    assert related_documents(documents[::-1]) == {1: 1, 4: 1, 8: 1, 3: 3, 6: 3} | unrelated
    bridge = numbered(9, "9.md", "c", "Fees")  # a copy of 3 and a version of 1
    assert (
        related_documents([*documents, bridge]) == {1: 1, 3: 1, 4: 1, 6: 1, 8: 1, 9: 1} | unrelated
    )


def test_files_of_one_name_in_several_formats_are_of_one_text() -> None:
    files = [
        numbered(n, path, str(n))
        for n, path in enumerate(("a/fees.docx", "a/fees.pdf", "b/fees.pdf"), 1)
    ]
    entries = [numbered(n, f"corpus.jsonl#{n}.{n}", str(n), str(n), str(n)) for n in (4, 5)]
    assert related_documents([*files, *entries]) == {1: 1, 2: 1, 3: 3, 4: 4, 5: 5}


def test_a_title_of_most_documents_says_nothing() -> None:
    half = [
        numbered(row, f"{row}.md", str(row), "Harbour" if row < 3 else str(row))
        for row in range(1, 5)
    ]
    assert related_documents(half) == {1: 1, 2: 1, 3: 3, 4: 4}
    assert related_documents(half[:3]) == {1: 1, 2: 2, 3: 3}


@pytest.mark.parametrize(("shared", "alike"), [(80, True), (55, True), (30, False), (0, False)])
def test_versions_that_are_most_of_a_project_are_of_one_text(shared: int, alike: bool) -> None:
    documents = [
        numbered(n, f"{n}.md", str(n), "Lease" if n < 31 else f"Letter {n}") for n in range(1, 41)
    ]
    clauses = " ".join(
        f"clause{n}" for n in range(shared)
    )  # as in a menu of a site, if they are few

    def text_of(document: int) -> str:
        return f"{clauses} {' '.join(f'own{document}x{n}' for n in range(100 - shared))}"

    related = related_documents(documents, text_of)
    assert related == {n: 1 if alike and n < 31 else n for n in range(1, 41)}
    if alike:
        sides = split_documents(group_keys(documents, related), 0.5)
        assert sides.keys() <= set(range(31, 41)), "most of the documents are trained on"
        assert sides


def test_versions_and_mails_of_a_thread_are_not_parted() -> None:
    documents = [numbered(n, f"{n}.eml", str(n), f"Re: Berth {n // 3}") for n in range(90)]
    queries = [Query(str(n), "question", n, n, "", "train") for n in range(90)]
    context: Any = SimpleNamespace(store=store_of(documents), settings=validate({}))
    sides = {query.document_id: query.split for query in split_queries(context, queries, [])}
    assert {*sides.values()} == set(SIDES)
    assert all(sides[3 * n] == sides[3 * n + 1] == sides[3 * n + 2] for n in range(30))


def test_validation_queries_of_a_file_stay_and_all_other_imported_ones_are_trained_on() -> None:
    documents = [numbered(n, f"{n}.md", str(n), f"Title {n}") for n in range(60)]
    imported = [Query(f"i{n}", "imported", n, n, "", "train", imported=True) for n in range(20)]
    named = [
        Query(f"v{n}", "imported", n, n, "", "validation", imported=True) for n in range(15, 25)
    ]
    generated = [Query(f"g{n}", "question", n, n, "") for n in range(60)]
    chosen: list[tuple[Any, ...]] = []
    context: Any = SimpleNamespace(
        store=store_of(documents),
        settings=validate({}),
        report_choice=lambda *choice: chosen.append(choice),
    )
    split = split_queries(
        context,
        [*imported, *named, *generated],
        [],
    )
    assert [query.split for query in split[:30]] == ["train"] * 20 + ["validation"] * 10
    sides = [query.split for query in split[30:]]
    assert set(sides[:25]) == {"train"}, "an imported query asks for these documents"
    assert set(sides[25:]) == {"train", "heldout"}, "none of the generated ones stops the training"
    assert chosen[0][:2] == ("validation queries", 10)


def test_what_is_of_one_text_with_a_document_used_is_used() -> None:
    assert unrelated_documents([3, 9], {1: 1, 2: 2, 3: 1, 4: 2, 5: 5}) == {2, 4, 5}
