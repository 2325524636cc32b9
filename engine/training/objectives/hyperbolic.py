"""Scores and the entailment loss in hyperbolic space (METHODS.md §4).

Points are given by their space parts x: x_time = √(1/c + ‖x‖²), ⟨x, y⟩_L = x·y − x_time y_time.
Desai et al. 2023, "Hyperbolic image-text representations".
"""

from __future__ import annotations

import torch
from torch import Tensor

APERTURE = 0.1
"""Aperture constant: points nearer to the origin than 2 APERTURE/√c hold half of the space."""
_EPSILON = 1e-6
"""Distance from the ends of acosh, acos and asin, where their slopes are infinite."""


def distance_scores(
    queries: Tensor,
    chunks: Tensor,
    curvature: float,
) -> Tensor:
    """Return −d_L = −√(1/c) acosh(−c⟨x, y⟩_L) of queries (q, d) and chunks (n, d): (q, n)."""
    query_times = _compute_time(queries, curvature).unsqueeze(1)  # (q, 1)
    time_products = query_times * _compute_time(chunks, curvature)  # (q, n)
    inner = queries @ chunks.T - time_products  # ⟨x, y⟩_L (q, n)
    angles = torch.acosh((-curvature * inner).clamp_min(1 + _EPSILON))
    scores: Tensor = -angles / curvature**0.5
    return scores


def entailment(
    queries: Tensor,
    passages: Tensor,
    curvature: float,
) -> Tensor:
    """Return the mean of max(0, ext(q, c) − aper(q)) over pairs of rows (n, d), (n, d).

    It is how far passages lie outside the cones of their queries (METHODS.md §4):
    aper(x) = asin(2 APERTURE/(√c‖x‖)),
    ext(x, y) = acos((y_time + x_time c⟨x, y⟩_L) / (‖x‖ √((c⟨x, y⟩_L)² − 1))).
    """
    x_time = _compute_time(queries, curvature)  # (n,), as all that follow
    y_time = _compute_time(passages, curvature)
    inner = (queries * passages).sum(1) - x_time * y_time  # ⟨x, y⟩_L
    scaled_inner = curvature * inner  # c⟨x, y⟩_L
    x_length = queries.norm(dim=1).clamp_min(_EPSILON)
    denominator = x_length * (scaled_inner.square() - 1).clamp_min(_EPSILON).sqrt()
    cosine = (y_time + x_time * scaled_inner) / denominator
    exterior = torch.acos(cosine.clamp(_EPSILON - 1, 1 - _EPSILON))  # ext(x, y)
    sine = 2 * APERTURE / (curvature**0.5 * x_length)
    aperture = torch.asin(sine.clamp_max(1 - _EPSILON))  # aper(x)
    return torch.relu(exterior - aperture).mean()


def _compute_time(points: Tensor, curvature: float) -> Tensor:
    """Return x_time = √(1/c + ‖x‖²) (n,) of points (n, d)."""
    return (1 / curvature + points.square().sum(1)).sqrt()
