"""Alignment, normalised (BMEmbed, appendix E; Wang & Isola 2020 without the normalisation)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats

_BLOCK = 512
_SAME = 1e-6


def alignment(queries: ArrayLike, answers: ArrayLike, chunks: ArrayLike) -> Floats:
    """(p,) ‖e(q) − e(c⁺)‖² / ‖e(q) − e(c_nearest)‖² of every pair; their mean is the figure, lower is better, 1 the least.

    `queries` and `answers` (n, d): unit vectors of queries and of their evidence chunks, row by row; `chunks` (N, d): of
    all chunks, the answers among them. A pair whose nearest chunk coincides with the query has no scale: it counts 1
    where the answer coincides as well, else it is left out, so that p ≤ n.
    """
    asked, right, corpus = (np.asarray(array, dtype=np.float32) for array in (queries, answers, chunks))
    if asked.shape != right.shape or asked.ndim != 2 or corpus.ndim != 2 or not len(corpus):
        raise ValueError(f"queries {asked.shape}, answers {right.shape} and chunks {corpus.shape} do not fit")
    own = squared_distances(np.einsum("nd,nd->n", asked, right))
    best = [(asked[row : row + _BLOCK] @ corpus.T).max(axis=1) for row in range(0, len(asked), _BLOCK)]
    nearest = np.minimum(squared_distances(np.concatenate(best)) if best else own, own)
    scaled = nearest > _SAME
    kept = scaled | (own <= _SAME)
    ratios = np.divide(own, nearest, out=np.ones_like(own), where=scaled)
    return ratios[kept]


def squared_distances(cosines: ArrayLike) -> Floats:
    """‖x − y‖² = 2 − 2 x·y of unit vectors, from their cosines."""
    distances: Floats = np.maximum(2.0 - 2.0 * np.asarray(cosines, dtype=np.float64), 0.0)
    return distances
