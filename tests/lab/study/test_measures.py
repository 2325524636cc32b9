"""Figures of all queries next to those of bootstrap samples."""

from __future__ import annotations

import numpy as np
import pytest

from engine.evaluation.judgments import Judgment
from engine.lab.checks.diagnostics import Similarities
from engine.lab.study.measures import measure_all_queries


def test_accuracy_and_ndcg_of_all_queries_by_hand() -> None:
    """Query 2 finds its answer in the second place, 1/log2(3); query 0 does not find it."""
    judgments = [
        Judgment("a", "a", "chunk", {8: 1}),
        Judgment("unanswered", "unanswered", "chunk", {}),
        Judgment("b", "b", "chunk", {7: 1}),
    ]
    similarities = Similarities(
        rows=[2, 0],
        answers=[],
        correct=[],
        top=np.zeros((2, 3), np.float32),
        best=np.array([[5, 7, 9], [1, 2, 3]]),
        random=np.zeros((2, 1), np.float32),
    )
    assert measure_all_queries(similarities, judgments) == pytest.approx(
        {"accuracy@3, all queries": 50, "nDCG@3, all queries": 50 / np.log2(3)}
    )
