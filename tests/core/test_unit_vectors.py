"""Rows at unit length."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.unit_vectors import unit_rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_get_unit_length_and_keep_their_direction(dtype: type) -> None:
    rows = np.array([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]], dtype)
    found = unit_rows(rows)
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array([[0.6, 0.8], [0.0, -1.0], [0.0, 0.0]]))
    assert rows[0].tolist() == [3.0, 4.0]


def test_large_numbers_of_half_precision_do_not_overflow_and_rows_without_direction_become_zeros() -> None:
    assert unit_rows(np.full((1, 4), 60_000, np.float16)) == pytest.approx(np.full((1, 4), 0.5))
    tiny = np.array([[1e-13, 0.0], [1e-11, 0.0]])
    assert unit_rows(tiny).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert unit_rows(tiny, least=1e-12).tolist() == [[0.0, 0.0], [1.0, 0.0]]
