"""Gaussian kernel density (scipy, Silverman's width) of several samples on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

MIN_WIDTH = 0.005
"""Spread given to a sample of equal values, which would have no curve otherwise."""
PLACES = 121
"""Number of points on the axis of curves."""
# Kernel widths by which the axis reaches beyond the outermost sample.
_REACH = 3
# Decimal places of the axis and the densities.
_DIGITS = 4


def density_curves(
    samples: Sequence[ArrayLike], low: float, high: float
) -> tuple[list[float], list[list[float]]]:
    """Return an axis and the density of each sample (n,) on it.

    The axis has `PLACES` points. It reaches a little beyond all samples, but stays within
    [low, high], the possible values (such as 0 to 1).
    """
    from scipy.stats import gaussian_kde

    kernels = []
    for sample in samples:
        values = np.asarray(sample, dtype=np.float64)
        if np.ptp(values) < MIN_WIDTH:
            values = values.mean() + MIN_WIDTH * np.array([-1.0, 1.0])
        kernels.append(gaussian_kde(values, bw_method="silverman"))
    margin = _REACH * max(math.sqrt(kernel.covariance[0, 0]) for kernel in kernels)
    points = np.concatenate([kernel.dataset[0] for kernel in kernels])
    left = max(low, points.min() - margin)
    right = min(high, points.max() + margin)
    axis = np.round(np.linspace(left, right, PLACES), _DIGITS)
    curves = [np.round(kernel(axis), _DIGITS).tolist() for kernel in kernels]
    return axis.tolist(), curves
