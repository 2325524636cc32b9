"""Kernel densities, by hand and against scipy."""

from __future__ import annotations

import numpy as np
import pytest

from engine.metrics import density
from engine.metrics.density import kernel_density, kernel_width


def test_the_width_of_the_kernel_by_hand():
    # 0 … 4: s = √2.5, quartiles 1 and 3, so the IQR over 1.34 is the lesser.
    assert kernel_width([0, 1, 2, 3, 4]) == pytest.approx(0.9 * (2 / 1.34) * 5**-0.2)
    # Half of these agree, so the IQR is 0 and says nothing: s = √(9/5 · …) of four zeros and one 1.
    assert kernel_width([0, 0, 0, 0, 1]) == pytest.approx(
        0.9 * np.std([0, 0, 0, 0, 1], ddof=1) * 5**-0.2
    )


def test_values_that_are_all_alike_still_make_a_curve():
    assert kernel_width([0.5, 0.5]) == kernel_width([0.5]) == density.MIN_WIDTH
    peak = kernel_density([0.5], [0.5, 0.5 + density.MIN_WIDTH])
    assert peak[0] == pytest.approx(1 / (density.MIN_WIDTH * np.sqrt(2 * np.pi)))
    assert peak[1] == pytest.approx(peak[0] * np.exp(-0.5))


def test_the_density_is_scipys_with_the_same_width(monkeypatch):
    stats = pytest.importorskip("scipy.stats")
    monkeypatch.setattr(density, "BLOCK", 30)
    samples = np.random.default_rng(0).normal(0.4, 0.1, 200)
    at = np.linspace(-0.5, 1.5, 401)
    oracle = stats.gaussian_kde(samples, kernel_width(samples) / samples.std(ddof=1))(at)
    found = kernel_density(samples, at)
    assert found == pytest.approx(oracle, abs=1e-9)
    assert np.trapezoid(found, at) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("samples", [[], [np.nan], [[1.0]]])
def test_nothing_to_describe_is_refused(samples):
    with pytest.raises(ValueError, match="finite samples"):
        kernel_density(samples, [0.0])
