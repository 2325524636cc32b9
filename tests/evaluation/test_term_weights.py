"""Learnt weights of query words are taken only where that is shown to be better."""

from __future__ import annotations

import numpy as np
import pytest

from engine.evaluation.term_weights import Gap, decided
from engine.metrics import paired_difference

LEARNT = {"impact": 0.5, "affect": 0.6}


def gap(by: float, queries: int = 100) -> Gap:
    """A difference of `by` points, give or take 5 a query."""
    values = 0.5 + by / 100 + 0.05 * np.where(np.arange(queries) % 2, 1.0, -1.0)
    return paired_difference(values, np.full(queries, 0.5), 200).percent(), queries


@pytest.mark.parametrize("judged", [None, gap(3.0), gap(0.0), gap(-4.0, queries=19)])
def test_better_on_held_out_queries_is_taken(judged: Gap | None) -> None:
    chosen = decided(LEARNT, gap(4.0), judged)
    assert chosen.weights == LEARNT
    assert "counts 2 words of queries less" in chosen.reason
    assert "100 held-out queries, +4.0 points" in chosen.reason
    assert chosen.as_dict() == {"weighed_words": 2, "weighed_words_reason": chosen.reason}


@pytest.mark.parametrize(
    ("held_out", "judged", "why"),
    [
        (None, None, "fewer than 50 held-out queries"),
        (gap(0.0), None, "not shown to be better on 100 held-out queries"),
        (gap(-4.0), gap(4.0), "not shown to be better on 100 held-out queries, -4.0 points"),
        (gap(4.0, queries=49), None, "fewer than 50 held-out queries"),
        (gap(4.0), gap(-4.0), "worse on 100 judged queries, -4.0 points"),
    ],
)
def test_else_words_count_as_in_bm25(held_out: Gap | None, judged: Gap | None, why: str) -> None:
    chosen = decided(LEARNT, held_out, judged)
    assert chosen.weights == {}
    assert why in chosen.reason


def test_nothing_learnt_is_said_to_be_so() -> None:
    assert "teach nothing else" in decided({}, gap(4.0), None).reason
