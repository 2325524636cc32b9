"""Scores and the entailment loss of points of hyperbolic space, named by their space parts x (METHODS.md §4), in float32.

x_time = √(1/c + ‖x‖²); ⟨x, y⟩_L = x·y − x_time y_time. Desai et al. 2023, "Hyperbolic image-text representations".
"""

from __future__ import annotations

import torch
from torch import Tensor

K = 0.1
"""The aperture's constant: points nearer to the origin than 2K/√c hold half of the space."""
_EPSILON = 1e-6  # from the ends of acosh, acos and asin, where their slopes are infinite


def distance_scores(queries: Tensor, chunks: Tensor, curvature: float) -> Tensor:
    """−d_L = −√(1/c) acosh(−c⟨x, y⟩_L) of queries (q, d) and chunks (n, d): (q, n)."""
    products = queries @ chunks.T - _time(queries, curvature)[:, None] * _time(chunks, curvature)
    found: Tensor = -torch.acosh((-curvature * products).clamp_min(1 + _EPSILON)) / curvature**0.5
    return found


def entailment(queries: Tensor, passages: Tensor, curvature: float) -> Tensor:
    """The mean of max(0, ext(q, c) − aper(q)) over pairs (n, d), (n, d): how far passages lie outside the cones of their queries.

    aper(x) = asin(2K/(√c‖x‖)); ext(x, y) = acos((y_time + x_time c⟨x, y⟩_L) / (‖x‖ √((c⟨x, y⟩_L)² − 1))).
    """
    time, other = _time(queries, curvature), _time(passages, curvature)
    product = curvature * ((queries * passages).sum(1) - time * other)
    length = queries.norm(dim=1).clamp_min(_EPSILON)
    across = length * (product.square() - 1).clamp_min(_EPSILON).sqrt()
    exterior = torch.acos(((other + time * product) / across).clamp(_EPSILON - 1, 1 - _EPSILON))
    aperture = torch.asin((2 * K / (curvature**0.5 * length)).clamp_max(1 - _EPSILON))
    return torch.relu(exterior - aperture).mean()


def _time(points: Tensor, curvature: float) -> Tensor:
    return (1 / curvature + points.square().sum(1)).sqrt()
