"""Transformations that make vectors more isotropic, which is no better retrieval ("… evaluated", §2.5; docs/log/evaluation.md).

Each is learnt from the chunks' vectors and applied to queries and chunks alike; the results have unit norm again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.unit_vectors import unit_rows
from engine.metrics.relevance import Floats

_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Transformation:
    """x → (x − mean) · matrix, scaled to unit norm: `mean` (d,), `matrix` (d, d)."""

    mean: Floats
    matrix: Floats

    def __call__(self, vectors: ArrayLike) -> NDArray[np.float32]:
        """(n, d) unit vectors; one that falls on the mean, and has no direction, becomes 0."""
        moved = (np.asarray(vectors, dtype=np.float64) - self.mean) @ self.matrix
        return unit_rows(moved, least=1e-12)


def standardise(vectors: ArrayLike) -> Transformation:
    """Every dimension of `vectors` (n, d) to mean 0 and standard deviation 1; one that never varies stays as it is."""
    rows = _checked(vectors)
    spread = rows.std(axis=0)
    return Transformation(rows.mean(axis=0), np.diag(1.0 / np.where(spread > _LEAST, spread, 1.0)))


def whiten(vectors: ArrayLike) -> Transformation:
    """To the identity as covariance, by PCA (Su et al. 2021). Directions without variance, which dividing would blow up,
    are dropped: they become 0."""
    mean, variances, directions = _components(vectors)
    kept = variances > _LEAST * variances.max(initial=0.0)
    scale = np.divide(1.0, np.sqrt(variances), out=np.zeros_like(variances), where=kept & (variances > 0))
    return Transformation(mean, directions * scale)


def remove_top(vectors: ArrayLike, count: int) -> Transformation:
    """Centred, and freed of the `count` principal components of most variance ("all but the top", Mu & Viswanath 2018)."""
    mean, _, directions = _components(vectors)
    if not 0 <= count < len(mean):
        raise ValueError(f"of {len(mean)} components {count} cannot be removed")
    top = directions[:, len(mean) - count :]  # variances rise
    return Transformation(mean, np.eye(len(mean)) - top @ top.T)


def _components(vectors: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Mean (d,), variances (d,) rising, and the principal directions (d, d) in columns."""
    rows = _checked(vectors)
    mean = rows.mean(axis=0)
    centred = rows - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(rows))
    return mean, np.maximum(variances, 0.0), directions


def _checked(vectors: ArrayLike) -> Floats:
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise ValueError(f"a transformation wants two finite vectors or more, not an array of shape {rows.shape}")
    return rows
