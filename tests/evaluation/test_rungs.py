"""Which queries decide: the highest rung that could show the difference asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.evaluation.rungs import (
    CERTIFYING,
    RUNGS,
    Evidence,
    RungName,
    choose_shown,
    find_deciding,
    sort_from_top,
)


def rung(
    name: RungName,
    queries: int,
    spread: float = 0.1,
) -> Evidence:
    """Gains that alternate, so that their standard deviation is about `spread`; those of an
    interpolation are half of them.
    """
    gains = np.where(
        np.arange(queries) % 2,
        spread,
        -spread,
    )
    base = np.full(queries, 0.5)
    return Evidence(name, {"base": base, "interpolated": base + gains / 2, "adapted": base + gains})


def with_one_lost(variance: float) -> int:
    """The root of N = k (s² + 1/N)."""
    half = 4906 * variance / 2
    return math.ceil(half + math.sqrt(half**2 + 4906))


def test_queries_needed_follow_the_system_that_varies_most() -> None:
    evidence = rung("document", 1_000)
    # k = ((1.959964 + 0.841621) / 0.04)² = 4905.5; N = k (s² + 1/N), s² = 0.1² · 1000 / 999
    assert evidence.count_needed("base") == with_one_lost(0.01 * 1000 / 999) == 99
    assert evidence.count_needed("base", points=5.0) == 74
    assert rung("document", 1_000, 0.2).count_needed("base") == 219
    assert rung("document", 1_000, 0.0).count_needed("base") == 71
    assert Evidence("document", {"base": np.full(1_000, 0.5)}).count_needed("base") == 71, (
        "nothing varies"
    )


@pytest.mark.parametrize(
    ("queries", "spread", "needed"),
    [(1, 0.1, [219, 219]), (19, 0.0, [219, 219]), (19, 0.4, [219, 219]), (20, 0.0, [71, 81])],
)
def test_too_few_queries_to_have_a_spread_need_as_many_as_is_usual(
    queries: int, spread: float, needed: list[int]
) -> None:
    evidence = rung("judged", queries, spread)
    assert [
        evidence.count_needed("base", points) for points in (4.0, 3.5)
    ] == needed  # √k = 2.8 / 0.04 = 70.04, 2.8 / 0.035 = 80.05


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"judged": 1, "document": 11, "extractive": 900}, "document"),
        ({"judged": 11, "document": 11}, "judged"),
        ({"judged": 19, "document": 11, "model": 30}, "model"),
        ({"extractive": 900}, "extractive"),
        ({"judged": 100, "document": 900}, "judged"),
        ({"judged": 30, "document": 900, "model": 950}, "document"),
        ({"judged": 20, "document": 70}, "judged"),
        ({"judged": 3, "document": 20, "model": 70}, "document"),
    ],
)
def test_where_no_rung_decides_the_highest_that_has_a_spread_is_shown(
    counts: dict[RungName, int], expected: str
) -> None:
    assert (
        choose_shown([rung(name, queries) for name, queries in counts.items()], "base").rung
        == expected
    )


@pytest.mark.parametrize(
    ("name", "queries", "decides"),
    [
        ("judged", 102, True),
        ("judged", 98, False),
        ("model", 102, True),
        ("extractive", 5_000, False),
    ],
)
def test_a_rung_decides_with_enough_queries_and_extractive_ones_never(
    name, queries, decides
) -> None:
    assert rung(name, queries).suffices("base") == decides


def test_the_ladder_is_looked_at_from_the_top() -> None:
    ladder = [
        rung("extractive", 900),
        rung("model", 900),
        rung("judged", 30),
        rung("document", 0),
    ]
    assert [evidence.rung for evidence in sort_from_top(ladder)] == [
        "judged",
        "model",
        "extractive",
    ]
    assert find_deciding(ladder, "base") is ladder[1]
    assert find_deciding([rung("judged", 100), *ladder[:2]], "base").rung == "judged"
    assert find_deciding([ladder[0], ladder[2]], "base") is None
    assert {*RUNGS} - {*CERTIFYING} == {"preferred", "extractive"}
    assert RUNGS.index("judged") < RUNGS.index("preferred") < RUNGS.index("document")


def test_gaps_are_paired() -> None:
    evidence = rung("judged", 4)
    assert evidence.gaps("adapted", "base") == pytest.approx([-0.1, 0.1, -0.1, 0.1])
    assert evidence.gaps("base", "interpolated") == pytest.approx([0.05, -0.05, 0.05, -0.05])


@pytest.mark.parametrize(
    ("name", "queries", "documents", "proves"),
    [
        ("judged", 71, 71, True),
        ("judged", 70, 70, False),
        ("model", 71, 6, True),
        ("model", 71, 5, False),
        ("extractive", 900, 900, False),
    ],
)
def test_a_gain_counts_with_71_queries_about_6_documents(name, queries, documents, proves) -> None:
    """The last word takes more of them, the more they vary."""
    systems = rung(name, queries, 0.4).systems
    evidence = Evidence(
        name,
        systems,
        np.arange(queries) % documents,
    )
    assert evidence.may_prove == proves
    assert not evidence.suffices("base")


def test_without_systems_there_are_no_queries() -> None:
    assert Evidence("judged", {}).queries == 0
    assert sort_from_top([Evidence("judged", {})]) == []


def test_queries_of_one_document_count_for_less() -> None:
    alone = rung("document", 1_000)
    pairs = Evidence(
        "document",
        alone.systems,
        np.arange(1_000) // 2 % 250 + 1,
    )
    assert (alone.independent, pairs.independent) == (1_000, 250)
    same = Evidence(
        "document", alone.systems, np.arange(1_000) % 20
    )  # all of a document gain, or all lose
    assert (
        same.count_needed("base") == with_one_lost(20 / 19 * 0.5) == 2585
    )  # s² = 20 / 19 · 20 · 5² / 1000 = 0.526
    assert not same.suffices("base")
    few = Evidence(
        "document",
        rung("document", 1_000, 0.0).systems,
        np.arange(1_000) % 5,
    )
    assert few.count_needed("base") == 1_200  # six documents: five that agree show nothing
    assert not few.suffices("base")
