"""The map to given vectors, against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from engine.training.model.query_map import ridge_map


@pytest.mark.parametrize("count", [90, 9000])  # in one block, and in two
def test_it_is_the_ridge_regression_of_all_rows(count: int) -> None:
    rng = np.random.default_rng(0)
    own = rng.normal(size=(count, 7)).astype(np.float32)
    given = rng.normal(size=(count, 5)).astype(np.float32)
    strength = 0.3 * np.linalg.eigvalsh(own.T.astype(np.float64) @ own).mean()
    rows = (
        np.concatenate([own, np.sqrt(strength) * np.eye(7)]),
        np.concatenate([given, np.zeros((7, 5))]),
    )
    wanted = np.linalg.lstsq(*rows, rcond=None)[0]  # of ‖X W − Y‖² + λ‖W‖²
    np.testing.assert_allclose(ridge_map(own, given, 0.3), wanted, atol=1e-5)


def test_fewer_rows_than_dimensions_have_one_too() -> None:
    own = np.eye(8, dtype=np.float32)[:2]
    np.testing.assert_allclose(ridge_map(own, own, 4.0), own.T @ own / 2, atol=1e-6)  # λ = 4 · 2/8
