"""Transformations that make vectors more isotropic.

They do not improve retrieval ("Domain-adapted embeddings, evaluated", §2.5;
docs/log/evaluation.md). Each is learnt from the chunks' vectors (n, d) and applied to queries and
chunks alike; results have unit norm. Raises ValueError for fewer than two vectors, or for numbers
that are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles, Floats
from engine.encoders.geometry.similarity import unit_rows

_MIN_VARIANCE = 1e-6
"""A deviation, or a share of the largest variance, below this counts as rounding error."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """x → (x − mean) · matrix, scaled to unit norm: `mean` (d,), `matrix` (d, d)."""

    mean: Doubles
    matrix: Doubles

    def __call__(self, vectors: ArrayLike) -> Floats:
        """Return unit vectors (n, d); a vector equal to the mean has no direction and becomes 0."""
        centred = np.asarray(vectors, dtype=np.float64) - self.mean
        return unit_rows(centred @ self.matrix, least=1e-12)


def standardise(vectors: ArrayLike) -> Transformation:
    """Scale every dimension to mean 0 and standard deviation 1; constant ones stay as they are.

    x → (x − μ)/σ.
    """
    mean, centred = _centre(vectors)
    deviations = centred.std(axis=0)  # σ, (d,)
    scales = np.where(
        deviations > _MIN_VARIANCE,
        deviations,
        1.0,
    )
    return Transformation(mean, np.diag(1.0 / scales))


def whiten(vectors: ArrayLike) -> Transformation:
    """Transform the covariance Σ to the identity by PCA (Su et al. 2021).

    x → (x − μ) U Λ^−½ with Σ = U Λ Uᵀ. Directions without variance become 0, since their noise
    would be amplified.
    """
    mean, centred = _centre(vectors)
    covariance = centred.T @ centred / len(centred)  # Σ, (d, d)
    variances, directions = np.linalg.eigh(covariance)  # Λ, (d,); U, (d, d)
    has_variance = variances > _MIN_VARIANCE * variances.max(initial=0.0)
    scales = np.zeros_like(variances)
    scales[has_variance] = 1.0 / np.sqrt(variances[has_variance])
    return Transformation(mean, directions * scales)


def remove_top(vectors: ArrayLike, count: int) -> Transformation:
    """Centre vectors and remove the `count` principal components of largest variance.

    x → (x − μ)(I − U Uᵀ), U (d, count) of the top components: "all but the top" (Mu & Viswanath
    2018).
    """
    mean, centred = _centre(vectors)
    if not 0 <= count < len(mean):
        raise ValueError(f"of {len(mean)} components {count} cannot be removed")
    # `eigh` sorts by increasing variance.
    _, directions = np.linalg.eigh(centred.T @ centred)
    top = directions[:, len(mean) - count :]  # U
    return Transformation(mean, np.eye(len(mean)) - top @ top.T)


def _centre(vectors: ArrayLike) -> tuple[Doubles, Doubles]:
    """Return the mean (d,) and the vectors minus the mean (n, d)."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise ValueError(
            f"a transformation wants two finite vectors or more, not an array of shape {rows.shape}"
        )
    mean: Doubles = rows.mean(axis=0)
    return mean, rows - mean
