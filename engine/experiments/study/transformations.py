"""Transformations that make vectors more isotropic, which is no better retrieval ("… evaluated",
§2.5; docs/log/evaluation.md).

Each is learnt from the chunks' vectors (n, d) and applied to queries and chunks alike; the results
have unit norm again. ValueError for fewer than two vectors, or numbers that are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.similarity import unit_rows
from engine.metrics.relevance import Floats

_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Transformation:
    """x → (x − mean) · matrix, scaled to unit norm: `mean` (d,), `matrix` (d, d)."""

    mean: Floats
    matrix: Floats

    def __call__(self, vectors: ArrayLike) -> NDArray[np.float32]:
        """(n, d) unit vectors; one that falls on the mean, and has no direction, becomes 0."""
        return unit_rows(
            (np.asarray(vectors, dtype=np.float64) - self.mean) @ self.matrix, least=1e-12
        )


def standardise(vectors: ArrayLike) -> Transformation:
    """Every dimension to mean 0 and standard deviation 1; one that never varies stays as it is."""
    mean, centred = _centred(vectors)
    spread = centred.std(axis=0)
    return Transformation(mean, np.diag(1.0 / np.where(spread > _LEAST, spread, 1.0)))


def whiten(vectors: ArrayLike) -> Transformation:
    """To the identity as covariance, by PCA (Su et al.

    2021). Directions without variance, which it would blow up, become 0.
    """
    mean, centred = _centred(vectors)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = variances > _LEAST * variances.max(initial=0.0)
    return Transformation(
        mean, directions * np.where(kept, 1.0 / np.sqrt(np.where(kept, variances, 1.0)), 0.0)
    )


def remove_top(vectors: ArrayLike, count: int) -> Transformation:
    """Centred, and freed of the `count` principal components of most variance ("all but the
    top", Mu & Viswanath 2018).
    """
    mean, centred = _centred(vectors)
    if not 0 <= count < len(mean):
        raise ValueError(f"of {len(mean)} components {count} cannot be removed")
    top = np.linalg.eigh(centred.T @ centred)[1][:, len(mean) - count :]  # variances rise
    return Transformation(mean, np.eye(len(mean)) - top @ top.T)


def _centred(vectors: ArrayLike) -> tuple[Floats, Floats]:
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise ValueError(
            f"a transformation wants two finite vectors or more, not an array of shape {rows.shape}"
        )
    mean: Floats = rows.mean(axis=0)
    return mean, rows - mean
