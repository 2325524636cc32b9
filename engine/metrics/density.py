"""Gaussian kernel density.

Silverman 1986, "Density estimation for statistics and data analysis", eq. 2.2a and 3.31.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats

MIN_WIDTH = 0.005
"""Minimum width of the kernel, in the unit of the samples, so that equal values make a curve."""
PLACES = 121
"""Number of points on the axis of curves."""
BLOCK = 20_000
# Kernel widths by which the axis reaches beyond the outermost sample.
_REACH = 3
_DIGITS = 4


def kernel_width(samples: ArrayLike) -> float:
    """Return h = 0.9 · min(s, IQR/1.34) · n^(−1/5) of samples (n,), at least `MIN_WIDTH`.

    s is the standard deviation with n − 1. Raises ValueError for no or non-finite samples.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(
            f"a density wants finite samples in one dimension, not an array of shape {values.shape}"
        )
    lower, upper = np.quantile(values, [0.25, 0.75])
    spreads = [float(upper - lower) / 1.34]
    if len(values) > 1:
        spreads.append(float(values.std(ddof=1)))
    spread = min((spread for spread in spreads if spread > 0), default=0.0)
    return max(MIN_WIDTH, float(0.9 * spread * len(values) ** -0.2))


def kernel_density(samples: ArrayLike, at: ArrayLike) -> Floats:
    """Return the density of samples (n,) at the points `at` (g,): Σ_i φ((x − x_i)/h) / (n h)."""
    width = kernel_width(samples)
    values = np.asarray(samples, dtype=np.float64)
    points = np.asarray(at, dtype=np.float64)
    total: Floats = np.zeros(len(points))
    for start in range(0, len(values), BLOCK):
        distances = (points[:, None] - values[None, start : start + BLOCK]) / width  # (g, b)
        total += np.exp(-0.5 * distances**2).sum(axis=1)
    return total / (len(values) * width * float(np.sqrt(2 * np.pi)))


def density_curves(
    samples: Sequence[ArrayLike], low: float, high: float
) -> tuple[list[float], list[list[float]]]:
    """Return an axis and the density of each sample (n,) on it.

    The axis lies within [low, high] and reaches a little beyond all samples.
    """
    arrays = [np.asarray(sample, dtype=np.float64) for sample in samples]
    margin = _REACH * max(kernel_width(array) for array in arrays)
    lowest = min(float(array.min()) for array in arrays)
    highest = max(float(array.max()) for array in arrays)
    start = max(min(low, lowest), lowest - margin)
    end = min(high, highest + margin)
    axis = np.round(np.linspace(start, end, PLACES), _DIGITS)
    curves = [np.round(kernel_density(array, axis), _DIGITS).tolist() for array in arrays]
    return axis.tolist(), curves
