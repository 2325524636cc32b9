from __future__ import annotations

import math

import pytest
import torch
from fixtures.sentence_encoders import Precomputed

from engine.training.objectives import losses


def test_listnet_by_hand() -> None:
    # Teacher logits ln 3 and 0 give p^r = (3/4, 1/4); scores 0.05·(ln 2, 0) at τ = 0.05 give p^s =
    # (2/3, 1/3).
    scores = torch.tensor([[0.05 * math.log(2), 0.0]])
    teacher = torch.tensor([[math.log(3), 0.0]])
    expected = -(0.75 * math.log(2 / 3) + 0.25 * math.log(1 / 3))
    assert losses.listnet(scores, teacher, temperature=0.05).item() == pytest.approx(
        expected, abs=1e-6
    )


def test_listnet_is_the_mean_over_queries() -> None:
    scores = torch.tensor([[0.3, 0.1], [0.2, 0.5]])
    teacher = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    each = [losses.listnet(scores[i : i + 1], teacher[i : i + 1]).item() for i in range(2)]
    assert losses.listnet(scores, teacher).item() == pytest.approx(sum(each) / 2, abs=1e-6)


def test_listnet_sees_only_candidates() -> None:
    scores = torch.tensor([[0.3, 0.9, 0.1]], requires_grad=True)
    teacher = torch.tensor([[2.0, 50.0, 1.0]])
    loss = losses.listnet(
        scores,
        teacher,
        candidates=torch.tensor([[True, False, True]]),
    )
    alone = losses.listnet(torch.tensor([[0.3, 0.1]]), torch.tensor([[2.0, 1.0]]))
    assert loss.item() == pytest.approx(alone.item(), abs=1e-6)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0, 1].item() == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_listnet_gradient_equals_sentence_transformers(seed: int) -> None:
    from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss

    generator = torch.Generator().manual_seed(seed)
    given = torch.nn.functional.normalize(
        torch.randn(8, 5, 16, generator=generator), dim=2
    )  # query, then 7 chunks
    bm25 = 30 * torch.rand(5, 7, generator=generator)
    alpha = 2.0
    tau = 0.05
    ours = given.clone().requires_grad_()
    theirs = given.clone().requires_grad_()
    scores = (ours[:1] * ours[1:]).sum(2).T  # (5, 7)
    losses.listnet(scores, bm25 / alpha, temperature=tau).backward()
    oracle = DistillKLDivLoss(
        Precomputed(),
        student_temperature=tau,
        teacher_temperature=alpha,
    )
    oracle.similarity_fct = lambda a, b: (a * b).sum(1)
    oracle([{"vectors": column} for column in theirs], bm25).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    # They multiply the loss by τ² to keep the gradient's size when τ changes.
    assert torch.allclose(ours.grad, theirs.grad / tau**2, atol=1e-5)
    assert ours.grad.norm() > 0.1


def test_listnet_survives_half_precision_scores() -> None:
    scores = torch.tensor([[1.0, -1.0]], dtype=torch.bfloat16)
    value = losses.listnet(
        scores,
        torch.tensor([[0.0, 60.0]]),
        temperature=0.01,
    )
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(200.0, abs=1e-3)


def test_entropy_by_hand() -> None:
    assert losses.entropy(torch.tensor([[0.0, 0.0, 0.0, 0.0]])).item() == pytest.approx(
        math.log(4), abs=1e-6
    )
    assert losses.entropy(torch.tensor([[math.log(3), 0.0]])).item() == pytest.approx(
        -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)), abs=1e-6
    )


def test_temperature_for_entropy_by_hand() -> None:
    # softmax((ln 9, 0) / 2) = (3/4, 1/4): the wanted entropy is that of (3/4, 1/4), so t = 2.
    wanted = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert losses.temperatures_for_entropy(
        torch.tensor([[math.log(9), 0.0]]), wanted
    ).item() == pytest.approx(2, abs=1e-3)


def test_entropy_target_is_met_per_query_whatever_the_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    teacher = torch.rand(6, 50, generator=generator) * torch.tensor(
        [0.01, 0.1, 1, 10, 100, 1000]
    ).unsqueeze(1)
    target = losses.target_logits(teacher, target_entropy=1.3)
    assert torch.allclose(losses.entropy(target), torch.full((6,), 1.3), atol=1e-3)


def test_entropy_target_counts_candidates_only() -> None:
    teacher = torch.tensor([[9.0, 5.0, 1.0, 100.0]])
    candidates = torch.tensor([[True, True, True, False]])
    target = losses.target_logits(
        teacher,
        candidates,
        target_entropy=0.7,
    )
    assert losses.entropy(target).item() == pytest.approx(0.7, abs=1e-3)
    assert torch.softmax(target, 1)[0, 3].item() == 0.0


def test_unreachable_entropy_stays_finite() -> None:
    target = losses.target_logits(
        torch.tensor([[5.0, 5.0, 1.0], [4.0, 2.0, 1.0]]), target_entropy=50.0
    )
    assert torch.isfinite(target).all()
    assert torch.allclose(losses.entropy(target), torch.full((2,), math.log(3)), atol=1e-3)


def test_infonce_by_hand() -> None:
    # exp(score/τ): 2, 1, 1 → the positive (second column) has 1/4.
    scores = 0.05 * torch.log(torch.tensor([[2.0, 1.0, 1.0]]))
    assert losses.infonce(scores, torch.tensor([1])).item() == pytest.approx(math.log(4), abs=1e-5)


def test_infonce_counts_relabelled_chunks_as_positives() -> None:
    # exp(score/τ): 2, 1, 1; the first two are positives: −(ln(2/4) + ln(1/4))/2.
    scores = 0.05 * torch.log(torch.tensor([[2.0, 1.0, 1.0]]))
    relabelled = torch.tensor([[True, False, False]])
    value = losses.infonce(
        scores,
        torch.tensor([1]),
        relabelled=relabelled,
    )
    assert value.item() == pytest.approx(-(math.log(2 / 4) + math.log(1 / 4)) / 2, abs=1e-5)
    nobody = torch.zeros_like(relabelled)
    alone = losses.infonce(scores, torch.tensor([1]))
    assert losses.infonce(scores, torch.tensor([1]), relabelled=nobody).item() == pytest.approx(
        alone.item(), abs=1e-6
    )


def test_infonce_leaves_out_false_negatives_but_never_the_positive() -> None:
    scores = 0.05 * torch.log(torch.tensor([[2.0, 1.0, 1.0]]))
    excluded = torch.tensor([[True, True, False]])
    assert losses.infonce(scores, torch.tensor([1]), excluded=excluded).item() == pytest.approx(
        math.log(2), abs=1e-5
    )


def test_false_negatives_by_hand() -> None:
    teacher = torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 4.0]])
    found = losses.false_negatives(teacher, torch.tensor([1, 0]))
    assert found.tolist() == [[False, False, True], [False, False, False]]
    candidates = torch.tensor([[True, True, False], [True, True, True]])
    assert not losses.false_negatives(teacher, torch.tensor([1, 0]), candidates).any()


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_mixed_is_the_weighted_sum(weight: float) -> None:
    scores = torch.tensor([[0.3, 0.1], [0.2, 0.5]])
    teacher = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    positives = torch.tensor([0, 0])
    want = weight * losses.infonce(scores, positives) + (1 - weight) * losses.listnet(
        scores, teacher
    )
    assert losses.mixed(scores, teacher, positives, infonce_weight=weight).item() == pytest.approx(
        want.item(), abs=1e-6
    )
