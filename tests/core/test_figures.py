"""Figures with their intervals, and what may be said of them."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.core.figures import Difference, FigureTable, Verdict


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_queries_that_flatter_prove_nothing(verdict: Verdict) -> None:
    gap = Difference(2.0, 1.0, 3.0, 0.99, verdict, 0.01)
    table = FigureTable("base", 60, 0, {}, {"adapted": {"ndcg@10": gap}}, {"adapted − bm25": {"ndcg@10": gap}})
    found = table.of_flattering_queries()
    expected = "no difference shown" if verdict == "no difference shown" else "proves nothing"
    for row in (found.differences["adapted"], found.pairs["adapted − bm25"]):
        assert row["ndcg@10"].verdict == expected
        assert row["ndcg@10"].value == 2.0
