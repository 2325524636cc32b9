"""Random-effects meta-analysis: from an effect on several collections to that on the next one.

DerSimonian & Laird 1986, "Meta-analysis in clinical trials"; prediction for a new study: Higgins,
Thompson & Spiegelhalter 2009, "A re-evaluation of random-effects meta-analysis".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

TAIL = 0.8
"""Probability at which the normal distribution has the quantile of the t distribution.

The gate asks for losses with a probability of 0.2, which is the other tail.
"""
MIN_COLLECTIONS = 3
"""Minimum number of collections to estimate how much an effect varies between them."""


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution of an effect, in the unit of the effects it was computed from."""

    mean: float
    deviation: float

    def below(self, limit: float) -> float:
        """Return the probability of an effect below `limit`."""
        if self.deviation == 0:
            return float(self.mean < limit)
        return NormalDist(self.mean, self.deviation).cdf(limit)

    def update(self, value: float, error: float) -> Normal:
        """Return the posterior after a measurement `value` with standard error `error`.

        Prior and measurement are weighted by 1/variance (normal-normal conjugacy).
        """
        if self.deviation == 0:
            return self
        if error == 0:
            return Normal(value, 0.0)
        prior_weight = 1 / self.deviation**2
        weight = 1 / error**2
        total = prior_weight + weight
        mean = (prior_weight * self.mean + weight * value) / total
        return Normal(mean, math.sqrt(1 / total))


def predicted_effect(
    effects: Sequence[float], errors: Sequence[float], least_deviation: float = 0.0
) -> Normal:
    """Return the distribution of the effect on a collection that was not measured.

    `effects` (k,) and their standard `errors` (k,) have a value for each collection. With
    w_i = 1/s_i², ȳ the weighted mean and Q = Σ w_i (y_i − ȳ)², the variance between collections is
    τ² = max(0, (Q − (k − 1)) / (Σ w_i − Σ w_i² / Σ w_i)). The mean has weights 1/(s_i² + τ²), and a
    new collection the variance τ² + 1/Σ 1/(s_i² + τ²). τ is at least `least_deviation`, since few
    collections may be alike by chance. Raises ValueError for fewer than `MIN_COLLECTIONS`, or an
    error that is not above 0.

    As τ is estimated, a new effect has a t distribution with k − 2 degrees of freedom (Higgins et
    al. 2009). The result is the normal distribution with the same 20 % tails, since a normal
    distribution can be updated by further measurements (`Normal.update`).
    """
    count = len(effects)
    if count < MIN_COLLECTIONS or count != len(errors):
        raise ValueError(
            f"{count} effects with {len(errors)} errors: at least {MIN_COLLECTIONS} of each are"
            " needed"
        )
    if min(errors) <= 0:
        raise ValueError("a standard error must be above 0")
    weights = [1 / error**2 for error in errors]
    total = sum(weights)
    mean = weighted_mean(effects, weights)
    q = sum(w * (y - mean) ** 2 for w, y in zip(weights, effects, strict=True))
    scale = total - sum(weight**2 for weight in weights) / total
    between = max(least_deviation**2, (q - (count - 1)) / scale)
    weights = [1 / (error**2 + between) for error in errors]
    deviation = math.sqrt(between + 1 / sum(weights))
    tail_factor = t_quantile(TAIL, count - 2) / NormalDist().inv_cdf(TAIL)
    return Normal(weighted_mean(effects, weights), tail_factor * deviation)


def t_quantile(probability: float, degrees: int) -> float:
    """Return a quantile of Student's t distribution with `degrees` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return Σ w_i x_i / Σ w_i."""
    total = sum(value * weight for value, weight in zip(values, weights, strict=True))
    return total / sum(weights)
