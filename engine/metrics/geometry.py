"""Geometry of unit vectors: alignment, uniformity, isotropy, and the distance to vectors of
general text (METHODS.md §1 Geometry).

Diagnostics only: none of them predicts accuracy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats, Ints

PAIRS = 200_000
_BLOCK = 512  # rows at once: of queries, of pairs, of chunks
_PAIR_BLOCK = 20_000
_GENERAL_BLOCK = 4_096
_SAME = 1e-6


def alignment(queries: ArrayLike, answers: ArrayLike, chunks: ArrayLike) -> Floats:
    """(p,) ‖e(q) − e(c⁺)‖² / ‖e(q) − e(c_nearest)‖² of every pair; their mean is the figure,
    lower is better, 1 the least.

    BMEmbed, appendix E; Wang & Isola 2020 without the normalisation. `queries` and `answers` (n,
    d): unit vectors of queries and of their evidence chunks, row by row; `chunks` (N, d): of all
    chunks, the answers among them. A pair whose nearest chunk coincides with the query has no
    scale: it counts 1 where the answer coincides as well, else it is left out, so that p ≤ n.
    """
    wanted, right, corpus = (
        np.asarray(array, dtype=np.float32) for array in (queries, answers, chunks)
    )
    if wanted.shape != right.shape or wanted.ndim != 2 or corpus.ndim != 2 or not len(corpus):
        raise ValueError(
            f"queries {wanted.shape}, answers {right.shape} and chunks {corpus.shape} do not fit"
        )
    own = squared_distances(np.einsum("nd,nd->n", wanted, right))
    block = max(1, min(_BLOCK, 512 * 100_000 // len(corpus)))
    best = [
        (wanted[row : row + block] @ corpus.T).max(axis=1) for row in range(0, len(wanted), block)
    ]
    return alignment_of(own, squared_distances(np.concatenate(best)) if best else own)


def alignment_of(own: ArrayLike, nearest: ArrayLike) -> Floats:
    """`alignment` of the squared distances of queries (n,) to their own answers and to the
    chunks nearest to them.
    """
    wanted = np.asarray(own, dtype=np.float64)
    least = np.minimum(np.asarray(nearest, dtype=np.float64), wanted)
    scaled = least > _SAME
    kept = scaled | (wanted <= _SAME)
    found: Floats = np.divide(wanted, least, out=np.ones_like(wanted), where=scaled)[kept]
    return found


def squared_distances(cosines: ArrayLike) -> Floats:
    """‖x − y‖² = 2 − 2 x·y of unit vectors, from their cosines."""
    distances: Floats = np.maximum(2.0 - 2.0 * np.asarray(cosines, dtype=np.float64), 0.0)
    return distances


def uniformity(vectors: ArrayLike, pairs: int = PAIRS, seed: int = 0) -> float:
    """|log E exp(−2 ‖e(x) − e(y)‖²)| over pairs of distinct rows of `vectors` (n, d), unit norm;
    higher is better.

    Wang & Isola 2020, as its absolute value (BMEmbed, appendix E). All pairs where there are at
    most `pairs` of them, else as many random ones. ValueError for fewer than two rows.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(
            f"uniformity wants two vectors or more, not an array of shape {rows.shape}"
        )
    one, other = _pairs(len(rows), pairs, seed)
    total = 0.0
    for start in range(0, len(one), _PAIR_BLOCK):
        part = slice(start, start + _PAIR_BLOCK)
        total += float(
            np.exp(
                -2 * squared_distances(np.einsum("pd,pd->p", rows[one[part]], rows[other[part]]))
            ).sum()
        )
    return abs(float(np.log(total / len(one))))


def _pairs(count: int, most: int, seed: int) -> tuple[Ints, Ints]:
    if count * (count - 1) // 2 <= most:
        one, other = np.triu_indices(count, 1)
        return one, other
    rng = np.random.default_rng(seed)
    first = rng.integers(0, count, most)
    return first, (first + rng.integers(1, count, most)) % count


def isotropy_a(vectors: ArrayLike) -> float:
    """I_A = (|V| − ‖1ᵀV‖ + σ_min²/2) / (|V| + ‖1ᵀV‖ + σ_max²/2) of V (n, d); higher is more
    isotropic.

    Mu & Viswanath 2018, second-order approximation ("Domain-adapted embeddings, evaluated", §2.5
    and appendix A.3). It approximates min Z(c) / max Z(c), Z(c) = Σ_v exp(cᵀv), over unit vectors c
    of all d dimensions: σ_min is 0 where there are fewer vectors than dimensions.
    """
    rows = _checked_vectors(vectors, least=1)
    spread = np.linalg.eigvalsh(rows.T @ rows)  # σ², rising
    pull = float(np.linalg.norm(rows.sum(axis=0)))
    smallest = max(float(spread[0]), 0.0)
    largest = float(spread[-1])
    return (len(rows) - pull + smallest / 2) / (len(rows) + pull + largest / 2)


def isoscore(vectors: ArrayLike) -> float:
    """IsoScore of `vectors` (n, d), d ≥ 2: 1 where the variance is equal in all directions, 0
    where it lies in one.

    Rudman et al. 2022. With λ (d,) the variances along the principal components, scaled to norm √d:
    δ = ‖√d λ/‖λ‖ − 1‖ / √(2(d − √d)) and I_B = ((d − δ²(d − √d))² − d) / (d(d − 1)). As δ²(d − √d)
    = d − √d s with s = Σλ/‖λ‖, that is (s² − 1) / (d − 1).
    """
    rows = _checked_vectors(vectors, least=2)
    dimensions = rows.shape[1]
    if dimensions < 2:
        raise ValueError("IsoScore wants two dimensions or more")
    centred = rows - rows.mean(axis=0)
    variances: Floats = np.maximum(np.linalg.eigvalsh(centred.T @ centred), 0.0)
    length = float(np.linalg.norm(variances))
    if length == 0.0:
        raise ValueError("IsoScore wants vectors that differ")
    s = float(variances.sum()) / length
    return float((s * s - 1) / (dimensions - 1))


def _checked_vectors(vectors: ArrayLike, least: int) -> Floats:
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < least or not np.isfinite(rows).all():
        raise ValueError(
            f"isotropy wants {least} finite vectors or more, not an array of shape {rows.shape}"
        )
    return rows


def nearest_distances(domain: ArrayLike, general: ArrayLike) -> Floats:
    """(n,) Euclidean distance of each unit vector of `domain` (n, d) to its nearest of `general`
    (m, d): √(2 − 2 max cos), 0 to 2.

    Δ(D, D′) of "Domain-adapted embeddings, evaluated", §2.6. ValueError where there is nothing to
    be near to, or shapes do not fit.
    """
    rows, others = (np.asarray(array, dtype=np.float32) for array in (domain, general))
    if rows.ndim != 2 or others.ndim != 2 or not len(others) or rows.shape[1] != others.shape[1]:
        raise ValueError(f"vectors of shape {rows.shape} and {others.shape} do not fit")
    nearest = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _GENERAL_BLOCK):
        nearest[start : start + _GENERAL_BLOCK] = (
            rows[start : start + _GENERAL_BLOCK] @ others.T
        ).max(axis=1)
    found: Floats = np.sqrt(np.maximum(0.0, 2.0 - 2.0 * nearest))
    return found
