"""Kernel densities on one axis."""

from __future__ import annotations

import numpy as np
import pytest

from engine.metrics.density import MIN_WIDTH, PLACES, density_curves


def test_curves_share_an_axis_and_have_an_area_of_one() -> None:
    rng = np.random.default_rng(0)
    axis, curves = density_curves(
        [rng.normal(0.4, 0.1, 200), rng.normal(0.1, 0.05, 500)], -1.0, 1.0
    )
    assert len(axis) == PLACES == len(curves[0]) == len(curves[1])
    assert [np.trapezoid(curve, axis) for curve in curves] == pytest.approx([1, 1], abs=2e-2)
    assert [axis[int(np.argmax(curve))] for curve in curves] == pytest.approx([0.4, 0.1], abs=0.06)


def test_an_axis_stays_within_its_bounds() -> None:
    axis, _ = density_curves(
        [np.linspace(-1, 1, 50)],
        -1.0,
        1.0,
    )
    assert (axis[0], axis[-1]) == (-1.0, 1.0)


def test_values_that_are_all_alike_still_make_a_curve() -> None:
    for values in ([0.5], [0.5, 0.5]):
        axis, (curve,) = density_curves(
            [values],
            -1.0,
            1.0,
        )
        assert axis[int(np.argmax(curve))] == pytest.approx(0.5, abs=2 * MIN_WIDTH)
