"""The losses on a query's own chunks: ListMLE, top-1 Plackett-Luce, triplets."""

from __future__ import annotations

import math

import pytest
import torch
from fixtures.sentence_encoders import Precomputed

from engine.training.objectives import losses


def test_listmle_by_hand() -> None:
    # exp(score/τ) = 1, 2, 5, the teacher's order is second, third, first: P = 2/(2 + 5 + 1) · 5/(5
    # + 1) · 1/1.
    scores = 0.05 * torch.log(torch.tensor([[1.0, 2.0, 5.0]]))
    value = losses.listmle(scores, torch.tensor([[0.0, 9.0, 4.0]]))
    assert value.item() == pytest.approx(-math.log(2 / 8 * 5 / 6), abs=1e-5)


def test_listmle_equals_the_product_and_its_gradient() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(4, 6, generator=generator) * 2 - 1
    teacher = torch.rand(
        4,
        6,
        generator=generator,
    )
    candidates = torch.rand(4, 6, generator=generator) < 0.6
    candidates[:, 0] = True
    ours = scores.clone().requires_grad_()
    exact = scores.double().requires_grad_()
    value = losses.listmle(
        ours,
        teacher,
        temperature=0.1,
        candidates=candidates,
    )
    likelihoods = []
    for row in range(4):
        places = [j for j in torch.argsort(-teacher[row]).tolist() if candidates[row, j]]
        utilities = torch.exp(exact[row, places] / 0.1)
        factors = [utilities[i] / utilities[i:].sum() for i in range(len(places))]
        likelihoods.append(-torch.log(torch.stack(factors).prod()))
    wanted = torch.stack(likelihoods).mean()
    value.backward()
    wanted.backward()
    assert value.item() == pytest.approx(wanted.item(), abs=1e-4)
    assert ours.grad is not None
    assert exact.grad is not None
    assert torch.allclose(ours.grad.double(), exact.grad, atol=1e-4)
    assert ours.grad[~candidates].abs().max() == 0
    assert exact.grad.norm() > 0.1


def test_listmle_takes_equals_by_column() -> None:
    scores = torch.tensor([[0.3, 0.1, 0.2]])
    tied = torch.tensor([[0.0, 0.0, 0.0]])
    ordered = torch.tensor([[3.0, 2.0, 1.0]])
    assert losses.listmle(scores, tied).item() == losses.listmle(scores, ordered).item()
    assert (
        losses.listmle(scores, tied).item()
        != losses.listmle(scores, torch.tensor([[1.0, 2.0, 3.0]])).item()
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_plackett_luce_by_hand(smoothing: float) -> None:
    # Of the three candidates exp(score/τ) = 4, 3, 1, not the last chunk. y = (1 − ε)·(0, 1, 0)
    # + ε/3.
    scores = 0.05 * torch.log(torch.tensor([[4.0, 3.0, 1.0, 50.0]]))
    candidates = torch.tensor([[True, True, True, False]])
    value = losses.plackett_luce(
        scores, torch.tensor([1]), candidates=candidates, label_smoothing=smoothing
    )
    spread = -(math.log(4 / 8) + math.log(3 / 8) + math.log(1 / 8)) / 3
    assert value.item() == pytest.approx(
        (1 - smoothing) * -math.log(3 / 8) + smoothing * spread, abs=1e-5
    )


def test_plackett_luce_equals_torchs_cross_entropy() -> None:
    generator = torch.Generator().manual_seed(2)
    scores = torch.rand(
        6,
        9,
        generator=generator,
    )
    positives = torch.randint(
        9,
        (6,),
        generator=generator,
    )
    ours = scores.clone().requires_grad_()
    theirs = scores.clone().requires_grad_()
    losses.plackett_luce(ours, positives, label_smoothing=0.3).backward()
    torch.nn.functional.cross_entropy(theirs / 0.05, positives, label_smoothing=0.3).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)


def test_plackett_luce_smooths_over_the_chunks_that_are_left() -> None:
    scores = 0.05 * torch.log(torch.tensor([[4.0, 3.0, 1.0]]))
    value = losses.plackett_luce(
        scores, torch.tensor([1]), label_smoothing=0.2, excluded=torch.tensor([[True, True, False]])
    )
    assert value.item() == pytest.approx(-0.9 * math.log(3 / 4) - 0.1 * math.log(1 / 4), abs=1e-5)


def test_triplet_by_hand() -> None:
    # Margin 0.3: positives 0.6 − negatives (0.5, 0.1) lack 0.2 and nothing; 0.2 − 0.4 lacks 0.5.
    scores = torch.tensor([[0.6, 0.5, 0.1, 0.9], [0.9, 0.2, 0.4, 0.0]])
    positives = torch.tensor([[True, False, False, False], [False, True, False, False]])
    negatives = torch.tensor([[False, True, True, False], [False, False, True, False]])
    value = losses.triplet(
        scores,
        positives,
        negatives,
        margin=0.3,
    )
    assert value.item() == pytest.approx((0.2 + 0 + 0.5) / 3, abs=1e-6)


def test_triplet_without_any_is_nothing() -> None:
    scores = torch.tensor([[0.6, 0.5]], requires_grad=True)
    value = losses.triplet(
        scores, torch.tensor([[True, False]]), torch.tensor([[False, False]]), margin=0.3
    )
    value.backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert scores.grad.abs().max() == 0


def test_triplet_equals_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer.losses import TripletLoss
    from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric

    generator = torch.Generator().manual_seed(5)
    given = torch.nn.functional.normalize(
        torch.randn(3, 6, 8, generator=generator), dim=2
    )  # query, chunk, negative
    ours = given.clone().requires_grad_()
    theirs = given.clone().requires_grad_()
    own = torch.eye(6, dtype=torch.bool)
    scores = ours[0] @ torch.cat([ours[1], ours[2]]).T  # (6, 12)
    nothing = torch.zeros_like(own)
    wanted = torch.cat([own, nothing], 1)
    unwanted = torch.cat([nothing, own], 1)
    losses.triplet(scores, wanted, unwanted, margin=0.4).backward()
    oracle = TripletLoss(
        Precomputed(), distance_metric=TripletDistanceMetric.COSINE, triplet_margin=0.4
    )
    oracle([{"vectors": column} for column in theirs], torch.zeros(6)).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    # Their cosine divides by the norms, which takes the part along each unit vector off its
    # gradient.
    along = (ours.grad * given).sum(2, keepdim=True) * given
    assert torch.allclose(ours.grad - along, theirs.grad, atol=1e-5)
    assert theirs.grad.norm() > 0.1


def test_every_loss_stays_finite_where_chunks_are_masked() -> None:
    scores = torch.tensor(
        [[1.0, -1.0, 0.5], [0.2, 0.3, 1.0]], dtype=torch.bfloat16, requires_grad=True
    )
    teacher = torch.tensor([[50.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    positives = torch.tensor([0, 1])
    candidates = torch.tensor([[True, False, False], [False, True, True]])
    above = torch.tensor([[False, True, True], [False, False, True]])
    own = torch.tensor([[True, False, False], [False, True, False]])
    values = [
        losses.listnet(scores, teacher, temperature=0.01, candidates=candidates),
        losses.listmle(scores, teacher, temperature=0.01, candidates=candidates),
        losses.infonce(scores, positives, temperature=0.01, excluded=above),
        losses.infonce(scores, positives, temperature=0.01, relabelled=above),
        losses.plackett_luce(
            scores, positives, temperature=0.01, candidates=candidates, label_smoothing=0.5
        ),
        losses.plackett_luce(
            scores, positives, temperature=0.01, candidates=candidates, excluded=above
        ),
        losses.triplet(scores, own, candidates & ~own, margin=0.2),
        losses.mixed(
            scores, teacher, positives, infonce_weight=0.5, temperature=0.01, relabelled=above
        ),
    ]
    for value in values:
        assert value.dtype == torch.float32
        (gradient,) = torch.autograd.grad(
            value,
            scores,
            retain_graph=True,
        )
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()
