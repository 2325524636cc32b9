"""Geometry of unit vectors: alignment, uniformity, isotropy, and distance to general text.

METHODS.md §1 Geometry. These are diagnostics only: none of them predicts accuracy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles, Floats
from engine.metrics.relevance import Ints

PAIRS = 200_000
"""Maximum number of pairs of vectors; if there are more, as many random ones are used."""
# How many queries, pairs and domain vectors are processed at once, and the largest number of
# products at once.
_BLOCK = 512
_PAIR_BLOCK = 20_000
_GENERAL_BLOCK = 4_096
_PRODUCTS = 512 * 100_000
# Vectors up to this squared distance apart count as equal.
_SAME = 1e-6


def alignment(
    queries: ArrayLike,
    answers: ArrayLike,
    chunks: ArrayLike,
) -> Doubles:
    """Return ‖e(q) − e(c⁺)‖² / ‖e(q) − e(c_nearest)‖² of every pair (p,); lower is better.

    The mean is the figure, which is 1 at best. BMEmbed, appendix E; Wang & Isola 2020 without the
    normalisation. `queries` and `answers` (n, d) are unit vectors of queries and of their evidence
    chunks, `chunks` (N, d) those of all chunks. If the nearest chunk equals the query, the divisor
    is 0: the pair counts 1 if the answer equals the query as well, else it is left out, so that
    p ≤ n.
    """
    query_vectors = np.asarray(queries, dtype=np.float32)
    answer_vectors = np.asarray(answers, dtype=np.float32)
    corpus = np.asarray(chunks, dtype=np.float32)
    has_dimensions = query_vectors.ndim == 2 and corpus.ndim == 2
    if not has_dimensions or query_vectors.shape != answer_vectors.shape or not len(corpus):
        raise ValueError(
            f"queries {query_vectors.shape}, answers {answer_vectors.shape} and chunks"
            f" {corpus.shape} do not fit"
        )
    to_answers = squared_distances(np.einsum("nd,nd->n", query_vectors, answer_vectors))
    block = max(1, min(_BLOCK, _PRODUCTS // len(corpus)))
    nearest = _largest_products(query_vectors, corpus, block)
    return alignment_of(to_answers, squared_distances(nearest))


def _largest_products(
    rows: Floats,
    others: Floats,
    block: int,
) -> Doubles:
    """Return each row's largest inner product with any of the others (n,), `block` rows a step."""
    largest = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), block):
        here = slice(start, start + block)
        products = rows[here] @ others.T
        largest[here] = products.max(axis=1)
    return largest


def alignment_of(to_answers: ArrayLike, to_nearest: ArrayLike) -> Doubles:
    """Return the `alignment` of squared distances (n,) to the answers and to the nearest chunks."""
    distances = np.asarray(to_answers, dtype=np.float64)
    # The answer is one of the chunks, so the nearest chunk is further away only by rounding.
    smallest = np.minimum(np.asarray(to_nearest, dtype=np.float64), distances)
    has_scale = smallest > _SAME
    coincides = distances <= _SAME
    ratios: Doubles = np.divide(
        distances,
        smallest,
        out=np.ones_like(distances),
        where=has_scale,
    )
    return ratios[has_scale | coincides]


def squared_distances(cosines: ArrayLike) -> Doubles:
    """Return ‖x − y‖² = 2 − 2 x·y of unit vectors, from their cosines."""
    distances: Doubles = np.maximum(2.0 - 2.0 * np.asarray(cosines, dtype=np.float64), 0.0)
    return distances


def uniformity(
    vectors: ArrayLike,
    pairs: int = PAIRS,
    seed: int = 0,
) -> float:
    """Return |log E exp(−2 ‖e(x) − e(y)‖²)| over pairs of unit vectors (n, d); higher is better.

    Wang & Isola 2020, as its absolute value (BMEmbed, appendix E). Uses all pairs of distinct rows
    if there are at most `pairs` of them, else as many random ones. Raises ValueError for fewer than
    two rows.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(
            f"uniformity wants two vectors or more, not an array of shape {rows.shape}"
        )
    first, second = _choose_pairs(
        len(rows),
        pairs,
        seed,
    )
    total = 0.0
    for start in range(0, len(first), _PAIR_BLOCK):
        left = rows[first[start : start + _PAIR_BLOCK]]
        right = rows[second[start : start + _PAIR_BLOCK]]
        cosines = np.einsum("pd,pd->p", left, right)
        total += float(np.exp(-2 * squared_distances(cosines)).sum())
    return abs(float(np.log(total / len(first))))


def _choose_pairs(
    count: int,
    most: int,
    seed: int,
) -> tuple[Ints, Ints]:
    """Return the row numbers (p,) of both vectors of each pair of distinct rows below `count`.

    These are all pairs, or `most` random ones if there are more.
    """
    if count * (count - 1) // 2 <= most:
        first, second = np.triu_indices(count, 1)
        return first, second
    rng = np.random.default_rng(seed)
    first = rng.integers(0, count, most)
    # From 1 to count − 1 rows further, modulo count, is never the same row.
    offsets = rng.integers(1, count, most)
    return first, (first + offsets) % count


def isotropy_a(vectors: ArrayLike) -> float:
    """Return I_A = (|V| − ‖1ᵀV‖ + σ_min²/2) / (|V| + ‖1ᵀV‖ + σ_max²/2) of V (n, d).

    Higher is more isotropic. Mu & Viswanath 2018, second-order approximation ("Domain-adapted
    embeddings, evaluated", §2.5 and appendix A.3) of min Z(c) / max Z(c) with Z(c) = Σ_v exp(cᵀv)
    over unit vectors c of all d dimensions: σ_min is 0 if there are fewer vectors than dimensions.
    """
    rows = _check_vectors(vectors, least=1)
    n = len(rows)
    norm = float(np.linalg.norm(rows.sum(axis=0)))  # ‖1ᵀV‖
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows)  # σ², ascending
    smallest = max(float(eigenvalues[0]), 0.0)
    largest = float(eigenvalues[-1])
    return (n - norm + smallest / 2) / (n + norm + largest / 2)


def isoscore(vectors: ArrayLike) -> float:
    """Return the IsoScore of vectors (n, d), d ≥ 2: 1 for equal variance in all directions.

    It is 0 if all variance lies in one direction. Rudman et al. 2022: with λ (d,) the variances
    along the principal components, scaled to norm √d, δ = ‖√d λ/‖λ‖ − 1‖ / √(2(d − √d)) and
    I_B = ((d − δ²(d − √d))² − d) / (d(d − 1)). As δ²(d − √d) = d − √d s with s = Σλ/‖λ‖, that is
    (s² − 1) / (d − 1).
    """
    rows = _check_vectors(vectors, least=2)
    dimensions = rows.shape[1]
    if dimensions < 2:
        raise ValueError("IsoScore wants two dimensions or more")
    centred = rows - rows.mean(axis=0)
    eigenvalues = np.linalg.eigvalsh(centred.T @ centred)
    variances: Doubles = np.maximum(eigenvalues, 0.0)
    length = float(np.linalg.norm(variances))
    if length == 0.0:
        raise ValueError("IsoScore wants vectors that differ")
    s = float(variances.sum()) / length
    return float((s * s - 1) / (dimensions - 1))


def _check_vectors(vectors: ArrayLike, least: int) -> Doubles:
    """Return vectors as (n, d). Raises ValueError for fewer than `least`, or infinite ones."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < least or not np.isfinite(rows).all():
        raise ValueError(
            f"isotropy wants {least} finite vectors or more, not an array of shape {rows.shape}"
        )
    return rows


def nearest_distances(domain: ArrayLike, general: ArrayLike) -> Doubles:
    """Return the Euclidean distance (n,) of each unit vector to its nearest general one.

    Δ(D, D′) = √(2 − 2 max cos), 0 to 2, of "Domain-adapted embeddings, evaluated", §2.6. `domain`
    is (n, d), `general` (m, d). Raises ValueError if `general` is empty or shapes do not fit.
    """
    rows = np.asarray(domain, dtype=np.float32)
    others = np.asarray(general, dtype=np.float32)
    if rows.ndim != 2 or others.ndim != 2 or not len(others) or rows.shape[1] != others.shape[1]:
        raise ValueError(f"vectors of shape {rows.shape} and {others.shape} do not fit")
    nearest = _largest_products(rows, others, _GENERAL_BLOCK)
    distances: Doubles = np.sqrt(squared_distances(nearest))
    return distances
