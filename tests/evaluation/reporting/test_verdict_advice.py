"""When a report advises BM25 as the default search mode."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.shown_numbers import numbers

from engine.core.figures import Difference, FigureTable, Interval, Verdict
from engine.evaluation.reporting.verdict import SEARCH_BY_KEYWORDS, advice


def compared(**gaps: tuple[float, float, float, Verdict]) -> FigureTable:
    """60 judged queries, BM25 at 63.0 nDCG@10; of each system its gap to BM25."""
    values = {"bm25": 63.0, **{name: 63.0 + gap[0] for name, gap in gaps.items()}}
    systems = {name: {"ndcg@10": Interval(value, value, value)} for name, value in values.items()}
    pairs = {
        f"{name} − bm25": {"ndcg@10": Difference(value, low, high, 0.0, verdict, 0.01)}
        for name, (value, low, high, verdict) in gaps.items()
    }
    return FigureTable(
        "base",
        60,
        0,
        systems,
        {},
        pairs,
    )


FAR: tuple[float, float, float, Verdict] = (
    -8.0,
    -12.0,
    -4.0,
    "worse",
)
UNSURE: tuple[float, float, float, Verdict] = (
    -2.0,
    -5.0,
    1.0,
    "no difference shown",
)


def test_bm25_that_is_better_is_advised_with_its_figures() -> None:
    table = compared(
        in_use=(-20.0, -25.0, -15.0, "worse"),
        weighted_in_use=FAR,
        rrf_in_use=UNSURE,
    )
    assert numbers(advice(table, "weighted", "hybrid").removesuffix(SEARCH_BY_KEYWORDS)) == [
        60,
        63,
        100,
        55,
    ]
    assert numbers(advice(table, "weighted", "semantic").removesuffix(SEARCH_BY_KEYWORDS)) == [
        60,
        63,
        100,
        43,
    ]
    assert "search.mode keywords" in SEARCH_BY_KEYWORDS


@pytest.mark.parametrize(
    ("mode", "gaps"),
    [
        ("hybrid", {"in_use": FAR, "weighted_in_use": UNSURE}),
        ("hybrid", {"in_use": FAR, "weighted_in_use": (3.0, 1.0, 5.0, "better")}),
        ("hybrid", {"in_use": FAR, "weighted_in_use": UNSURE, "rrf_in_use": FAR}),
        ("semantic", {"in_use": UNSURE, "weighted_in_use": FAR}),
        ("bm25", {"in_use": FAR, "weighted_in_use": FAR}),
    ],
)
def test_nothing_is_advised_where_the_default_mode_is_not_shown_to_be_worse(
    mode: str, gaps: dict[str, Any]
) -> None:
    assert advice(compared(**gaps), "weighted", mode) == ""


def test_without_judged_queries_nothing_is_advised() -> None:
    assert advice(None, "weighted", "hybrid") == ""
