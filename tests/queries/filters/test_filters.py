"""Duplicates, consistency, and imported queries."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fixtures.records import build_chunk, build_document

from engine.core.records import Query
from engine.datasets.beir import ImportedQuery
from engine.queries.filters.consistency import (
    EVERYDAY_TOP,
    consistency_filter,
    format_share,
    max_depth,
)
from engine.queries.filters.dedupe import deduplicate, jaccard
from engine.queries.imported import attach_imported
from engine.queries.rejection import Reason


def query(text: str, chunk_id: int = 1) -> Query:
    return Query(
        text,
        "question",
        chunk_id,
        1,
        "",
    )


def test_exact_duplicates_after_folding() -> None:
    result = deduplicate([query("What is X?"), query("what  is x?"), query("What is Y?")])
    assert [question.text for question in result.kept] == ["What is X?", "What is Y?"]
    assert [(rejection.query.text, rejection.detail) for rejection in result.rejected] == [
        ("what  is x?", "What is X?")
    ]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1.0, "100 %"),
        (598 / 600, "over 99 %"),
        (0.994, "99 %"),
        (0.5, "50 %"),
        (2 / 600, "under 1 %"),
        (0.0, "0 %"),
    ],
)
def test_only_exact_shares_are_printed_as_0_or_100_percent(share: float, expected: str) -> None:
    assert format_share(share) == expected


def test_jaccard_by_hand() -> None:
    assert jaccard(frozenset("abc"), frozenset("bcd")) == 0.5
    assert jaccard(frozenset(), frozenset()) == 1.0


def test_near_duplicates_need_the_threshold() -> None:
    # Shingles of 12 words: 10. One word changed at the end: 9 shared of 11.
    words = list("abcdefghijkl")
    near = [query(" ".join(words)), query(" ".join([*words[:-1], "m"]))]
    assert len(deduplicate(near, threshold=9 / 11).kept) == 1
    assert len(deduplicate(near, threshold=9 / 11 + 0.001).kept) == 2


def test_the_hash_finds_what_a_comparison_of_all_pairs_finds() -> None:
    rng = random.Random(0)
    texts = []
    for _ in range(150):
        words = [
            rng.choice("abcdefghij") + str(rng.randrange(40)) for _ in range(rng.randrange(3, 16))
        ]
        texts.append(" ".join(words))
        texts.append(" ".join([*words, "end"]))
    shingles = [
        frozenset(" ".join(t.split()[at : at + 3]) for at in range(len(t.split()) - 2))
        for t in texts
    ]
    places: list[int] = []
    for place, mine in enumerate(shingles):
        if not any(jaccard(mine, shingles[other]) >= 0.8 for other in places):
            places.append(place)
    result = deduplicate([query(text) for text in texts], threshold=0.8)
    assert [question.text for question in result.kept] == [texts[place] for place in places]
    assert 150 < len(places) < 300


def test_repeats_are_looked_for_with_places_to_stop_at() -> None:
    checks: list[int] = []
    queries = [query(f"what is thing {n} of the list") for n in range(50)]
    assert deduplicate(queries, check=lambda: checks.append(1)).kept == deduplicate(queries).kept
    assert len(checks) > len(queries)


def test_nothing_to_deduplicate() -> None:
    assert deduplicate([]).kept == []


def test_kept_when_any_retriever_finds_it_without_the_others() -> None:
    queries = [query(name) for name in "abcd"]
    first = {
        "a": 1,
        "b": 21,
        "c": 0,
        "d": 20,
    }
    second = {"b": 20, "c": 0}
    requests: list[list[str]] = []

    def ranker(table: dict[str, int]):
        def rank(some):
            requests.append([question.text for question in some])
            return np.array([table[question.text] for question in some])

        return rank

    result = consistency_filter(
        queries,
        [ranker(first), ranker(second)],
        top=20,
    )
    assert [question.text for question in result.kept] == ["a", "b", "d"]
    assert [(rejection.query.text, rejection.reason) for rejection in result.rejected] == [
        ("c", Reason.CHUNK_NOT_FOUND)
    ]
    assert result.share == 0.75
    assert requests == [["a", "b", "c", "d"], ["b", "c"]]


def test_a_query_whose_rank_is_beyond_the_top_is_left_out() -> None:
    result = consistency_filter(
        [query("a")],
        [lambda some: np.array([21])],
        top=20,
    )
    assert result.rejected[0].stored == f"{Reason.CHUNK_NOT_FOUND}: {result.rejected[0].detail}"
    assert "top 20" in result.rejected[0].detail
    assert consistency_filter([], [lambda some: np.array([])]).share == 1.0


def test_an_everyday_query_is_kept_when_its_chunk_is_among_the_first_hundred() -> None:
    def everyday(text: str) -> Query:
        return Query(
            text,
            "everyday",
            1,
            1,
            "",
        )

    queries = [
        everyday("by BM25"),
        everyday("by base"),
        everyday("by neither"),
        query("a question"),
        query("another"),
    ]
    by_bm25 = {
        "by BM25": 100,
        "by base": 0,
        "by neither": 101,
        "a question": 21,
        "another": 20,
    }
    by_base = {
        "by base": 100,
        "by neither": 0,
        "a question": 100,
    }
    rankers = [
        lambda some, table=table: np.array([table[question.text] for question in some])
        for table in (by_bm25, by_base)
    ]
    result = consistency_filter(
        queries,
        rankers,
        top=20,
    )
    assert [question.text for question in result.kept] == ["by BM25", "by base", "another"]
    assert [(rejection.query.text, rejection.detail) for rejection in result.rejected] == [
        ("by neither", "beyond the top 100"),
        ("a question", "beyond the top 20"),
    ]


def test_ranks_are_looked_for_as_deep_as_the_queries_need() -> None:
    everyday = Query(
        "e",
        "everyday",
        1,
        1,
        "",
    )
    assert [max_depth(some, 20) for some in ([], [query("a")], [query("a"), everyday])] == [
        20,
        20,
        EVERYDAY_TOP,
    ]
    assert max_depth([everyday], 300) == 300


def test_an_imported_query_has_the_kind_that_its_file_names() -> None:
    items = [
        ImportedQuery("when did it break", ("The pump failed",), kind="everyday"),
        ImportedQuery("q", kind="claim"),
    ]
    queries, rejected = attach_imported(items, CHUNKS, DOCUMENTS)
    assert [(imported.kind, imported.imported) for imported in queries] == [("everyday", True)]
    assert [(rejection.query.kind, rejection.query.imported) for rejection in rejected] == [
        ("claim", True)
    ]


CHUNKS = [
    build_chunk("The pump failed\nin March.", 1),
    build_chunk("It was replaced by a new one. The pump is fine.", 2, ordinal=1),
    build_chunk("It was replaced by a new one. The valve leaks.", 3, 2),
]
DOCUMENTS = [
    build_document("pumps/log.txt", title="Pump log", id=1),
    build_document("corpus.jsonl#v9", title="Valves", external_id="v9", id=2),
]


def attached(*items: ImportedQuery) -> list[tuple[int, str]]:
    queries, _ = attach_imported(items, CHUNKS, DOCUMENTS)
    return [(imported.chunk_id, imported.evidence) for imported in queries]


def test_evidence_is_found_without_white_space() -> None:
    queries, rejected = attach_imported(
        [ImportedQuery(" Which  pump?", ("pump failed  in March",))], CHUNKS, DOCUMENTS
    )
    assert queries == [
        Query("Which pump?", "imported", 1, 1, "pump failed  in March", imported=True)
    ]
    assert rejected == []


@pytest.mark.parametrize(
    ("hint", "expected"),
    [("Valves", 3), ("v9", 3), ("LOG.txt", 2), ("pump log", 2), (None, 2), ("?", 2)],
)
def test_the_named_document_is_preferred(hint, expected) -> None:
    assert attached(ImportedQuery("q", ("It was replaced by a new one.",), hint)) == [
        (expected, "It was replaced by a new one.")
    ]


def test_the_longest_evidence_decides_and_short_ones_need_the_document() -> None:
    assert attached(ImportedQuery("q", ("It was", "The valve leaks."))) == [(3, "The valve leaks.")]
    assert attached(ImportedQuery("q", ("valve",))) == []
    assert attached(ImportedQuery("q", ("valve",), "v9")) == [(3, "valve")]


def test_evidence_over_a_chunk_end_counts_for_its_beginning() -> None:
    parts = [
        "The first half of a long piece of evidence stands at the end of this chunk, ",
        "and the second half in the next.",
    ]
    chunks = [
        build_chunk("Before. " + parts[0] + "and the second", 1),
        build_chunk("half in the next. After.", 2, ordinal=1),
    ]
    queries, _ = attach_imported(
        [ImportedQuery("q", ("".join(parts),))],
        chunks,
        [],
    )
    assert [imported.chunk_id for imported in queries] == [1]


def test_reasons_of_rejection() -> None:
    items = [
        ImportedQuery("q", ("Nowhere to be found.",)),
        ImportedQuery("q"),
        ImportedQuery("  ", ("The pump",)),
    ]
    _, rejected = attach_imported(items, CHUNKS, DOCUMENTS)
    assert [rejection.reason for rejection in rejected] == [
        Reason.EVIDENCE_NOT_FOUND,
        Reason.NO_EVIDENCE,
        Reason.EMPTY,
    ]


def test_many_imports_agree_with_a_plain_search() -> None:
    rng = random.Random(5)
    words = [f"w{number}" for number in range(300)]
    texts = [" ".join(rng.choices(words, k=30)) for _ in range(200)]
    chunks = [
        build_chunk(text, place + 1, place // 4, ordinal=place % 4)
        for place, text in enumerate(texts)
    ]
    items = [ImportedQuery(f"q{n}", (" ".join(texts[n].split()[5:15]),)) for n in range(200)]
    queries, rejected = attach_imported(
        items,
        chunks,
        [],
    )
    squeezed = ["".join(text.split()) for text in texts]
    expected = [
        next(i + 1 for i, text in enumerate(squeezed) if "".join(item.evidence[0].split()) in text)
        for item in items
    ]
    assert [imported.chunk_id for imported in queries] == expected
    assert rejected == []


def test_questions_about_other_codes_numbers_or_names_are_no_duplicates() -> None:
    """Twelve words of which one differs: 9 of 11 shingles are shared."""
    template = "Which machine of the company is it that stands beside the northern {}?"
    others = [
        "hall 1",
        "hall 2",
        "PHX-121",
        "PHX-122",
        "gate in 2019",
        "gate in 2020",
        "Castel",
        "Marlow",
    ]
    remaining = deduplicate(
        [query(template.format(subject)) for subject in [*others, "hall 2 today", "gate", "gates"]],
        threshold=0.6,
    ).kept
    assert [question.text for question in remaining] == [
        template.format(subject) for subject in [*others, "gate"]
    ]
