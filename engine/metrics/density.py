"""Gaussian kernel density (Silverman 1986, "Density estimation for statistics and data
analysis", eq. 2.2a and 3.31).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats

MIN_WIDTH = 0.005
"""Of the kernel, in the unit of the samples: values that are all alike still make a curve."""
PLACES = 121
"""Places on an axis of curves."""
BLOCK = 20_000
_REACH = 3  # kernel widths beyond the outermost sample
_DIGITS = 4


def kernel_width(samples: ArrayLike) -> float:
    """h = 0.9 · min(s, IQR/1.34) · n^(−1/5) of `samples` (n,), s with n − 1; `MIN_WIDTH` at least.

    ValueError where there is no sample or one is not finite.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(
            f"a density wants finite samples in one dimension, not an array of shape {values.shape}"
        )
    quarter, three = np.quantile(values, [0.25, 0.75])
    spreads = [float(values.std(ddof=1)) if len(values) > 1 else 0.0, float(three - quarter) / 1.34]
    spread = min((one for one in spreads if one > 0), default=0.0)
    return max(MIN_WIDTH, float(0.9 * spread * len(values) ** -0.2))


def kernel_density(samples: ArrayLike, at: ArrayLike) -> Floats:
    """(g,) density of `samples` (n,) at the places `at` (g,): Σ_i φ((x − x_i)/h) / (n h), h of
    `kernel_width`.
    """
    width = kernel_width(samples)
    values = np.asarray(samples, dtype=np.float64)
    places = np.asarray(at, dtype=np.float64)
    total: Floats = np.zeros(len(places))
    for start in range(0, len(values), BLOCK):
        apart = (places[:, None] - values[None, start : start + BLOCK]) / width  # (g, b)
        total += np.exp(-0.5 * apart**2).sum(axis=1)
    return total / (len(values) * width * float(np.sqrt(2 * np.pi)))


def density_curves(
    samples: Sequence[ArrayLike], low: float, high: float
) -> tuple[list[float], list[list[float]]]:
    """An axis within [low, high] that reaches a little beyond all of the `samples`, each (n,),
    and the density of each on it.
    """
    arrays = [np.asarray(one, dtype=np.float64) for one in samples]
    margin = _REACH * max(kernel_width(one) for one in arrays)
    first = min(float(one.min()) for one in arrays)
    last = max(float(one.max()) for one in arrays)
    axis = np.round(
        np.linspace(max(min(low, first), first - margin), min(high, last + margin), PLACES), _DIGITS
    )
    return axis.tolist(), [np.round(kernel_density(one, axis), _DIGITS).tolist() for one in arrays]
