"""When a report advises BM25 as the default search mode."""

from __future__ import annotations

from typing import Any

import pytest

from engine.evaluation.reporting.advice import HOW, advice


def compared(**gaps: tuple[float, float, float, str]) -> dict[str, Any]:
    """60 judged queries, BM25 at 63.0 nDCG@10; of each system its gap to BM25, as a report has it."""
    systems = {"bm25": {"ndcg@10": {"value": 63.0}}}
    systems |= {name: {"ndcg@10": {"value": 63.0 + gap[0]}} for name, gap in gaps.items()}
    rows = [
        {"system": name, "other": "bm25", "value": value, "low": low, "high": high, "verdict": verdict}
        for name, (value, low, high, verdict) in gaps.items()
    ]
    return {"queries": 60, "systems": systems, "any_two": rows}


FAR = (-8.0, -12.0, -4.0, "worse")
UNSURE = (-2.0, -5.0, 1.0, "no difference shown")


def test_bm25_that_is_better_than_both_is_advised_with_its_figures() -> None:
    table = compared(served=(-20.0, -25.0, -15.0, "worse"), weighted_served=FAR, rrf_served=UNSURE)
    text = advice(table, "weighted", "hybrid")
    for data in (
        "60 judged queries",
        "(63.0 nDCG@10)",
        "(55.0: +8.0, +4.0 to +12.0)",
        "(43.0: +20.0, +15.0 to +25.0)",
        HOW,
    ):
        assert data in text
    assert 'search.mode = "bm25"' in HOW


def test_a_pair_counts_whichever_stands_first() -> None:
    table = compared(rrf_served=FAR)
    (row,) = table["any_two"]
    table["any_two"] = [
        {"system": "bm25", "other": "rrf_served", "value": 8.0, "low": 4.0, "high": 12.0, "verdict": "better"}
    ]
    assert "hybrid (RRF) search (55.0: +8.0, +4.0 to +12.0)" in advice(table, "rrf", "hybrid")
    assert advice({**table, "any_two": [row]}, "rrf", "hybrid") == advice(table, "rrf", "hybrid")


@pytest.mark.parametrize(
    ("mode", "gaps"),
    [
        ("hybrid", {"served": FAR, "weighted_served": UNSURE}),
        ("hybrid", {"served": FAR, "weighted_served": (3.0, 1.0, 5.0, "better")}),
        ("hybrid", {"served": FAR, "weighted_served": UNSURE, "rrf_served": FAR}),
        ("semantic", {"served": UNSURE, "weighted_served": FAR}),
        ("bm25", {"served": FAR, "weighted_served": FAR}),
    ],
)
def test_nothing_is_advised_where_the_default_mode_is_not_shown_to_be_worse(mode: str, gaps: dict[str, Any]) -> None:
    assert advice(compared(**gaps), "weighted", mode) == ""


def test_without_judged_queries_nothing_is_advised() -> None:
    assert advice(None, "weighted", "hybrid") == ""
