"""Two isotropy scores of a set of vectors: I_A and IsoScore (I_B). Diagnostics only: neither predicts accuracy.

Sources: "Domain-adapted embeddings, evaluated", §2.5 and appendix A.3; I_A: Mu & Viswanath 2018, second-order
approximation; IsoScore: Rudman et al. 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats


def isotropy_a(vectors: ArrayLike) -> float:
    """I_A = (|V| − ‖1ᵀV‖ + σ_min²/2) / (|V| + ‖1ᵀV‖ + σ_max²/2) of V (n, d); higher is more isotropic.

    It approximates min Z(c) / max Z(c), Z(c) = Σ_v exp(cᵀv), over unit vectors c of all d dimensions: σ_min is 0 where
    there are fewer vectors than dimensions.
    """
    rows = _checked(vectors, least=1)
    spread = np.linalg.eigvalsh(rows.T @ rows)  # σ², rising
    pull = float(np.linalg.norm(rows.sum(axis=0)))
    smallest, largest = max(float(spread[0]), 0.0), float(spread[-1])
    return (len(rows) - pull + smallest / 2) / (len(rows) + pull + largest / 2)


def isoscore(vectors: ArrayLike) -> float:
    """IsoScore of `vectors` (n, d), d ≥ 2: 1 where the variance is equal in all directions, 0 where it lies in one.

    With λ (d,) the variances along the principal components, scaled to norm √d: δ = ‖√d λ/‖λ‖ − 1‖ / √(2(d − √d)) and
    I_B = ((d − δ²(d − √d))² − d) / (d(d − 1)). As δ²(d − √d) = d − √d s with s = Σλ/‖λ‖, that is (s² − 1) / (d − 1).
    """
    rows = _checked(vectors, least=2)
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


def _checked(vectors: ArrayLike, least: int) -> Floats:
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < least or not np.isfinite(rows).all():
        raise ValueError(f"isotropy wants {least} finite vectors or more, not an array of shape {rows.shape}")
    return rows
