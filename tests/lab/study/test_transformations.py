"""Standardising, whitening and removing top components: by hand, and what each must leave
behind.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine.lab.study.transformations import remove_top, standardise, whiten
from engine.metrics.geometry import isoscore

ROWS = np.random.default_rng(5).normal(size=(400, 6)) @ np.random.default_rng(6).normal(
    size=(6, 6)
) + [
    3,
    0,
    0,
    1,
    0,
    0,
]


def raw(transformation, vectors):
    """Without the scaling to unit norm."""
    return (np.asarray(vectors) - transformation.mean) @ transformation.matrix


def test_standardising_by_hand() -> None:
    # Means 2 and 0, standard deviations 1 and 2: the row (3, 2) becomes (1, 1).
    found = standardise([[1.0, -2.0], [3.0, 2.0]])
    assert raw(found, [[3.0, 2.0], [2.0, 4.0]]).tolist() == [[1.0, 1.0], [0.0, 2.0]]
    assert found([[3.0, 2.0]])[0] == pytest.approx([0.5**0.5, 0.5**0.5])


def test_standardising_leaves_mean_zero_and_deviation_one() -> None:
    moved = raw(standardise(ROWS), ROWS)
    assert moved.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-12)
    assert moved.std(axis=0) == pytest.approx(np.ones(6))


def test_a_dimension_that_never_varies_is_not_blown_up() -> None:
    found = standardise([[1.0, 7.0], [3.0, 7.0]])
    assert raw(found, [[3.0, 8.0]]).tolist() == [[1.0, 1.0]]


def test_whitening_leaves_the_identity_as_covariance() -> None:
    moved = raw(whiten(ROWS), ROWS)
    assert np.cov(moved.T, bias=True) == pytest.approx(np.eye(6), abs=1e-9)
    assert isoscore(moved) == pytest.approx(1.0)
    assert isoscore(ROWS) < 0.8


def test_whitening_drops_directions_without_variance() -> None:
    flat = np.column_stack([ROWS[:, :2], np.full(400, 5.0)])
    moved = raw(whiten(flat), [*flat, [0.0, 0.0, 900.0]])
    assert np.linalg.matrix_rank(moved[:400]) == 2
    assert np.abs(moved[:400]).max() < 10
    assert moved[400] == pytest.approx(raw(whiten(flat), [[0.0, 0.0, 5.0]])[0])


def test_the_top_components_are_gone_and_the_others_stay() -> None:
    centred = ROWS - ROWS.mean(axis=0)
    _, _, components = np.linalg.svd(centred, full_matrices=False)
    moved = raw(remove_top(ROWS, 2), ROWS)
    assert moved @ components[:2].T == pytest.approx(np.zeros((400, 2)), abs=1e-9)
    assert moved @ components[2:].T == pytest.approx(centred @ components[2:].T)
    assert raw(remove_top(ROWS, 0), ROWS) == pytest.approx(centred)


def test_results_have_unit_norm_and_the_mean_itself_has_no_direction() -> None:
    for transformation in (standardise(ROWS), whiten(ROWS), remove_top(ROWS, 1)):
        moved = transformation([*ROWS, ROWS.mean(axis=0)])
        assert moved.dtype == np.float32
        assert np.linalg.norm(moved[:-1], axis=1) == pytest.approx(np.ones(400), abs=1e-6)
        assert moved[-1].tolist() == [0.0] * 6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: standardise([[1.0, 2.0]]),
        lambda: whiten([[1.0, float("inf")], [0.0, 1.0]]),
        lambda: remove_top(ROWS, 6),
        lambda: remove_top(ROWS, -1),
    ],
)
def test_what_cannot_be_transformed_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"wants|cannot"):
        wrong()
