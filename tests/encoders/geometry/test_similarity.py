"""Similarities by hand: inner products of forms, the scores that they stand for, and the rows of
an index.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.encoders.geometry.lorentz import Lorentz, LorentzForm
from engine.encoders.geometry.similarity import COSINE, compute_scores, unit_rows

POINTS = np.array([[0.75, 0.0], [0.0, 4 / 3], [0.0, 0.0]], np.float32)  # times 5/4, 5/3 and 1


def test_lorentz_scores_are_negative_distances() -> None:
    similarity = Lorentz()
    products = similarity.query_form(POINTS) @ similarity.chunk_form(POINTS).T
    assert products == pytest.approx(
        np.array([[-1, -25 / 12, -5 / 4], [-25 / 12, -1, -5 / 3], [-5 / 4, -5 / 3, -1]]), abs=1e-6
    )
    near = math.log(2)  # acosh(5/4), acosh(5/3)
    far = math.log(3)
    across = math.log((25 + math.sqrt(481)) / 12)
    expected = -np.array([[0, across, near], [across, 0, far], [near, far, 0]])
    assert compute_scores(similarity, POINTS, POINTS) == pytest.approx(expected, abs=1e-3)


def test_curvature_scales_distances() -> None:
    here = np.zeros((1, 1), np.float32)
    there = np.array([[math.sinh(1) / 2]], np.float32)
    assert compute_scores(Lorentz(4.0), here, there)[0, 0] == pytest.approx(-0.5, abs=1e-6)


def test_scores_of_nothing_and_of_what_rounding_puts_too_near() -> None:
    found = Lorentz().of_products(np.array([-np.inf, -1.0, -0.9999], np.float32))
    assert found.tolist() == [-math.inf, 0.0, 0.0]
    assert COSINE.of_products(np.array([0.25], np.float32)).tolist() == [0.25]


def test_rows_of_an_index_by_hand() -> None:
    form = Lorentz().index_form
    assert form.parameters == {"curvature": 1.0}
    rows = form.rows(POINTS)
    assert rows[:, :2] == pytest.approx(POINTS)
    assert rows[:, 2] == pytest.approx([1.25, 5 / 3, 1])
    assert form.vectors(rows) == pytest.approx(POINTS)
    query = form.query_rows(POINTS[0])
    assert query.tolist() == [0.75, 0, -1.25]
    assert form.similarities(rows @ query) == pytest.approx(
        compute_scores(Lorentz(), POINTS[:1], POINTS)[0], abs=1e-6
    )


@pytest.mark.parametrize("numbers", [{}, {"curvature": 0}, {"curvature": math.inf}])
def test_a_manifest_without_sound_parameters_is_refused(numbers: dict[str, float]) -> None:
    with pytest.raises((KeyError, ValueError)):
        LorentzForm().with_parameters(numbers)


def test_float16_keeps_lengths_of_points_and_directions_of_unit_vectors() -> None:
    half = POINTS.astype(np.float16)
    assert Lorentz().restore(half).tolist() == half.tolist()
    assert np.linalg.norm(COSINE.restore(half[:2]), axis=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_get_unit_length_and_keep_their_direction(dtype: type) -> None:
    rows = np.array([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]], dtype)
    found = unit_rows(rows)
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array([[0.6, 0.8], [0.0, -1.0], [0.0, 0.0]]))
    assert rows[0].tolist() == [3.0, 4.0]


def test_large_half_precision_numbers_do_not_overflow_and_zero_rows_stay_zero() -> None:
    assert unit_rows(np.full((1, 4), 60_000, np.float16)) == pytest.approx(np.full((1, 4), 0.5))
    tiny = np.array([[1e-13, 0.0], [1e-11, 0.0]])
    assert unit_rows(tiny).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert unit_rows(tiny, least=1e-12).tolist() == [[0.0, 0.0], [1.0, 0.0]]
