"""Which step of a training is kept, from per-query figures made by hand."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from engine.training.checkpoint import TrainingState
from engine.training.heldout import HeldOutFigures, is_clearly_worse

FIRST = [0.5] * 100


def moved(mean: float, spread: float) -> list[float]:
    """Step 0's figures and differences of this mean, whose standard deviation is about `spread`."""
    signs = [1.0, -1.0] * 50
    return [0.5 + mean + spread * sign for sign in signs]


def kept(*checks: list[float]) -> TrainingState:
    """The state after checks at the steps 0, 10, 20, …"""
    state = TrainingState()
    for number, ndcg in enumerate(checks):
        state.step = 10 * number
        state.record(HeldOutFigures(np.array(ndcg) > 0, np.array(ndcg)))
    return state


def test_the_interval_by_hand() -> None:
    # differences −0.3, −0.1: mean −0.2, standard error 0.1, so the interval ends at −0.2 + 0.196
    assert is_clearly_worse([0.2, 0.4], [0.5, 0.5])
    # −0.4, 0.0: mean −0.2, standard error 0.2, so it ends at 0.192
    assert not is_clearly_worse([0.1, 0.5], [0.5, 0.5])
    assert not is_clearly_worse([0.5, 0.5], [0.5, 0.5])
    assert is_clearly_worse([0.4, 0.4], [0.5, 0.5])
    assert not is_clearly_worse([0.0], [0.5])


@pytest.mark.parametrize(
    ("later", "step"),
    [
        # standard error of 100 differences with a spread of 0.2: 0.02, so the limit is a loss of
        # 0.039
        ([moved(0.05, 0.2), moved(0.08, 0.2), moved(0.07, 0.2)], 20),
        ([moved(-0.03, 0.2), moved(-0.02, 0.2), moved(-0.035, 0.2)], 20),
        ([moved(-0.03, 0.2), moved(-0.05, 0.2), moved(-0.06, 0.2)], 10),
        ([moved(-0.05, 0.2), moved(-0.03, 0.2), moved(-0.06, 0.2)], 20),
        ([moved(-0.05, 0.2), moved(-0.06, 0.2), moved(-0.07, 0.2)], 0),
        ([moved(-0.01, 0.0), moved(-0.02, 0.2), moved(-0.03, 0.2)], 20),
        ([moved(0.05, 0.2), moved(0.05, 0.2)], 10),
        ([], 0),
    ],
    ids=[
        "best later step",
        "worse within noise",
        "first within noise",
        "second within noise",
        "all clearly worse",
        "a small loss of every query",
        "equal: the earlier",
        "nothing but the start",
    ],
)
def test_step_0_is_kept_only_where_each_later_step_is_clearly_worse(
    later: list[list[float]], step: int
) -> None:
    state = kept(FIRST, *later)
    assert state.best_step == step
    values = [FIRST, *later][step // 10]
    assert state.best_metric == pytest.approx(100 * np.mean(values))


def test_checks_without_gain_are_counted_from_the_best_later_step() -> None:
    stale = [
        kept(FIRST, *checks).stale
        for checks in (
            [],
            [moved(-0.03, 0.2)],  # below step 0, and the best there is
            [moved(-0.03, 0.2), moved(-0.02, 0.2)],
            [moved(-0.03, 0.2), moved(-0.02, 0.2), moved(-0.025, 0.2)],
            [moved(-0.06, 0.2), moved(-0.07, 0.2)],
        )
    ]
    assert stale == [0, 0, 0, 1, 2]


def test_a_resumed_training_compares_with_the_same_step_0() -> None:
    state = kept(FIRST)
    resumed = TrainingState(**json.loads(json.dumps(asdict(state))))
    resumed.step = 10
    worse = np.array(moved(-0.05, 0.2))
    assert not resumed.record(HeldOutFigures(worse > 0, worse))
    assert resumed.best_step == 0
