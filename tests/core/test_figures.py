"""Figures with their intervals, and what may be said of them."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.core.figures import Difference, FigureTable, Verdict


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_queries_that_flatter_prove_nothing(verdict: Verdict) -> None:
    gap = Difference(
        2.0,
        1.0,
        3.0,
        0.99,
        verdict,
        0.01,
    )
    table = FigureTable(
        "base", 60, 0, {}, {"adapted": {"ndcg@10": gap}}, {"adapted − bm25": {"ndcg@10": gap}}
    )
    marked = table.of_flattering_queries()
    if verdict == "no difference shown":
        expected = "no difference shown"
    else:
        expected = "proves nothing"
    for row in (marked.differences["adapted"], marked.pairs["adapted − bm25"]):
        assert row["ndcg@10"].verdict == expected
        assert row["ndcg@10"].value == 2.0


@pytest.mark.parametrize(
    ("low", "high", "explained"),
    [(-5.74, -0.3, True), (0.3, 5.74, True), (-0.3, 5.0, False), (-5.0, 0.0, False)],
)
def test_why_a_difference_is_not_shown_although_its_interval_excludes_0(
    low: float, high: float, explained: bool
) -> None:
    gap = Difference(
        (low + high) / 2,
        low,
        high,
        0.9,
        "no difference shown",
        0.061,
    )
    assert ("0.05" in gap.verdict_text) is explained
    assert "0.061" in gap.verdict_text
    assert "0.05" not in Difference(3.0, 0.3, 5.7, 0.99, "better", 0.061).verdict_text


def test_a_sample_is_said_to_raise_scores_and_not_differences() -> None:
    assert FigureTable("base", 60, 0, {}, {}).sample_text == ""
    assert FigureTable("base", 60, 0, {}, {}, ranked=100_000).sample_text == (
        "Each query was ranked among 100,000 passages: some drawn at random from all, and those"
        " that answer a query. Among all passages, scores would be lower or equal; differences may"
        " change either way."
    )
