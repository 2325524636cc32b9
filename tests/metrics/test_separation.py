"""Distances of a domain's vectors to general ones, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.metrics.geometry import nearest_distances


def test_the_nearest_of_the_general_vectors_counts() -> None:
    domain = [
        [1.0, 0.0],
        [0.6, 0.8],
        [-1.0, 0.0],
    ]
    general = [[1.0, 0.0], [0.0, 1.0]]
    # cosines to the nearest: 1, 0.8, 0; distances √(2 − 2 cos)
    assert nearest_distances(domain, general) == pytest.approx(
        [0.0, np.sqrt(0.4), np.sqrt(2.0)], abs=1e-3
    )
    assert nearest_distances([[-1.0, 0.0]], [[1.0, 0.0]]) == pytest.approx([2.0])


def test_it_is_the_euclidean_distance() -> None:
    rng = np.random.default_rng(0)
    first, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in rng.normal(size=(2, 30, 8))
    )
    expected = np.linalg.norm(first[:, None] - other[None], axis=2).min(axis=1)
    assert nearest_distances(first, other) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("general", [np.empty((0, 2)), [[1.0]], [1.0, 0.0]])
def test_what_does_not_fit_is_refused(general) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        nearest_distances([[1.0, 0.0]], general)
