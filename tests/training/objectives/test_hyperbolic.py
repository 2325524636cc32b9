"""Distances and entailment in hyperbolic space, by hand and by its law of cosines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.encoders.geometry.lorentz import Lorentz
from engine.encoders.geometry.similarity import compute_scores
from engine.training.objectives.hyperbolic import APERTURE, distance_scores, entailment

NEAR = torch.tensor([[0.75, 0.0]])  # times 5/4, 5/3, 1
ACROSS = torch.tensor([[0.0, 4 / 3]])
ORIGIN = torch.zeros(1, 2)


def test_scores_are_negative_distances_by_hand() -> None:
    found = distance_scores(
        NEAR,
        torch.cat([NEAR, ACROSS, ORIGIN]),
        1.0,
    )
    expected = [
        0.0,
        -math.log((25 + math.sqrt(481)) / 12),
        -math.log(2),
    ]  # acosh(1), acosh(25/12), acosh(5/4)
    assert found[0].tolist() == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("curvature", [0.1, 1.0, 4.0])
def test_scores_are_those_that_search_ranks_by(curvature: float) -> None:
    points = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    found = distance_scores(
        torch.from_numpy(points[:5]),
        torch.from_numpy(points[5:]),
        curvature,
    )
    assert found.numpy() == pytest.approx(
        compute_scores(Lorentz(curvature), points[:5], points[5:]), abs=1e-5
    )


@pytest.mark.parametrize(
    ("passage", "exterior"),
    [(2 * NEAR, 0.0), (ORIGIN, math.pi), (ACROSS, math.acos(-15 / math.sqrt(481)))],
)
def test_entailment_by_hand(passage: Tensor, exterior: float) -> None:
    aperture = math.asin(2 * APERTURE / 0.75)
    assert entailment(NEAR, passage, 1.0).item() == pytest.approx(
        max(0.0, exterior - aperture), abs=2e-3
    )
    both = entailment(
        NEAR.repeat(2, 1),
        torch.cat([passage, 2 * NEAR]),
        1.0,
    )
    assert both.item() == pytest.approx(max(0.0, exterior - aperture) / 2, abs=2e-3)


@pytest.mark.parametrize("curvature", [0.5, 2.0])
def test_the_exterior_angle_is_that_of_the_law_of_cosines(curvature: float) -> None:
    # Of the triangle of the origin, x and y: cosh(oy) = cosh(ox) cosh(xy) − sinh(ox) sinh(xy)
    # cos(angle at x), distances times √c.
    rng = np.random.default_rng(1)
    for x, y in zip(
        rng.normal(size=(20, 3)).astype("f"), rng.normal(size=(20, 3)).astype("f"), strict=True
    ):
        points = np.stack([np.zeros(3, "f"), x, y])
        root = math.sqrt(curvature)
        distances = -compute_scores(Lorentz(curvature), points, points).astype(float) * root
        ox = distances[0, 1]
        oy = distances[0, 2]
        xy = distances[1, 2]
        inner = math.acos(
            (math.cosh(ox) * math.cosh(xy) - math.cosh(oy)) / (math.sinh(ox) * math.sinh(xy))
        )
        aperture = math.asin(min(1.0, 2 * APERTURE / (root * float(np.linalg.norm(x)))))
        found = entailment(torch.from_numpy(x)[None], torch.from_numpy(y)[None], curvature).item()
        assert found == pytest.approx(max(0.0, math.pi - inner - aperture), abs=2e-3)


def test_losses_and_slopes_are_finite_at_the_borders() -> None:
    far = torch.full((1, 2), 1e4)
    queries = torch.cat([ORIGIN, NEAR, NEAR, far, far]).requires_grad_()
    passages = torch.cat([ORIGIN, NEAR, ORIGIN, far, ORIGIN]).requires_grad_()
    loss = (
        entailment(queries, passages, 1.0)
        + distance_scores(queries, passages, 1.0).diagonal().sum()
    )
    loss.backward()
    for tensor in (loss, queries.grad, passages.grad):
        assert tensor is not None
        assert torch.isfinite(tensor).all()
