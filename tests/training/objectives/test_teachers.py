"""What teaches: BM25, and its mixture with the base encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.training.batches import Batch
from engine.training.config import TrainingConfig
from engine.training.objectives import losses
from engine.training.objectives.objective import BaseVectors, Objective, Teacher, mixture_logits

BASE = BaseVectors(
    np.eye(2, dtype=np.float32),
    np.array([[0.5, 0.2], [0.1, 0.7], [0.9, 0.4]], dtype=np.float32),
)  # queries, chunks


def make_batch(**changes: object) -> Batch:
    batch = Batch(
        np.array([0, 1]),
        np.array([0, 1, 2]),
        np.array([0, 1]),
        np.array([[8, 0, 4], [2, 6, 6]], np.float32),
    )
    return replace(batch, **changes)  # type: ignore[arg-type]


def test_mixture_by_hand() -> None:
    bm25 = torch.tensor([[8.0, 0.0]])
    base = torch.tensor([[0.5, 0.1]])
    # ¼·8/2 + ¾·20·0.5 = 8.5 and ¾·20·0.1 = 1.5
    assert torch.allclose(
        mixture_logits(bm25, base, bm25_weight=0.25, alpha=2.0), torch.tensor([[8.5, 1.5]])
    )
    assert torch.allclose(
        mixture_logits(bm25, None, bm25_weight=0.25, alpha=2.0), torch.tensor([[4.0, 0.0]])
    )


@pytest.mark.parametrize(
    ("objective", "teacher", "used", "base"),
    [
        ("mixed", "auto", "mixture", True),
        ("listnet", "auto", "bm25", False),
        ("listmle", "mixture", "mixture", True),
        ("listnet", "mixture", "mixture", True),
        ("mixed", "bm25", "bm25", False),
        ("infonce", "mixture", "bm25", False),  # it learns from no teacher
    ],
)
def test_which_teacher_is_used(
    objective: str,
    teacher: str,
    used: str,
    base: bool,
) -> None:
    config = replace(TrainingConfig(), **{"objective": objective, "teacher": teacher})
    assert (config.used_teacher, config.needs_base) == (used, base)


def test_false_negatives_want_the_teacher() -> None:
    config = TrainingConfig(
        objective="infonce",
        teacher="mixture",
        false_negatives="drop",
    )
    assert (config.used_teacher, config.needs_base) == ("mixture", True)
    assert not TrainingConfig(teacher_bm25_weight=1.0).needs_base


def test_every_teacher_of_a_batch() -> None:
    batch = make_batch()
    bm25 = torch.tensor([[8.0, 0, 4], [2, 6, 6]])
    cosines = torch.from_numpy(BASE[0] @ BASE[1].T)
    assert torch.allclose(
        Teacher(TrainingConfig(teacher="bm25"), None, None, "cpu").logits(batch), bm25 / 2
    )
    mixture = Teacher(TrainingConfig(teacher="mixture"), BASE, None, "cpu").logits(batch)
    assert torch.allclose(mixture, bm25 / 4 + 10 * cosines)
    config = TrainingConfig(
        teacher="cross-encoder",
        cross_encoder="x",
        teacher_temperature=4.0,
    )
    scored = Teacher(config, None, lambda batch: batch.bm25 + 1, "cpu").logits(batch)
    assert torch.allclose(scored, (bm25 + 1) / 4)


SCORES = torch.tensor([[0.5, 0.6, 0.1], [0.3, 0.2, 0.25]])
# vectors whose dot products are SCORES: queries are unit vectors, the chunks the columns
VECTORS = torch.cat([torch.eye(2), SCORES.T])


def value(batch: Batch, **recipe: object) -> float:
    config = replace(TrainingConfig(), **{"teacher": "bm25", **recipe})
    loss, _ = Objective(config, None, "cpu").build_loss(batch)
    return loss(VECTORS).item()


def test_the_objective_takes_the_recipes_loss() -> None:
    batch = make_batch()
    positives = torch.tensor([0, 1])
    teacher = torch.from_numpy(batch.bm25) / 2
    listnet = losses.listnet(SCORES, teacher).item()
    assert value(batch, objective="mixed", infonce_weight=0.0) == pytest.approx(listnet, abs=1e-6)
    contrast = losses.infonce(SCORES, positives).item()
    assert value(batch, objective="infonce") == pytest.approx(contrast, abs=1e-6)
    assert value(batch, objective="mixed") == pytest.approx(
        0.3 * contrast + 0.7 * listnet, abs=1e-6
    )
    assert value(batch, objective="listmle") == pytest.approx(
        losses.listmle(SCORES, teacher).item(), abs=1e-6
    )


def test_the_objective_on_a_querys_own_chunks() -> None:
    candidates = np.array([[True, True, False], [False, True, True]])
    batch = make_batch(candidates=candidates)
    positives = torch.tensor([0, 1])
    wanted = losses.plackett_luce(
        SCORES, positives, candidates=torch.from_numpy(candidates), label_smoothing=0.4
    )
    assert value(batch, objective="plackett_luce", label_smoothing=0.4) == pytest.approx(
        wanted.item(), abs=1e-6
    )
    # 0.2 − 0.5 + 0.6 and 0.2 − 0.2 + 0.25
    assert value(batch, objective="triplet") == pytest.approx((0.3 + 0.25) / 2, abs=1e-6)


@pytest.mark.parametrize("objective", ["infonce", "mixed", "plackett_luce", "triplet"])
def test_what_happens_to_false_negatives(objective: str) -> None:
    # BM25 puts the first query's second chunk above its evidence, and no other.
    batch = make_batch(bm25=np.array([[4, 8, 1], [2, 6, 6]], np.float32), candidates=None)
    if objective in ("plackett_luce", "triplet"):
        batch = replace(batch, candidates=np.ones((2, 3), np.bool_))
    kept, dropped, relabelled = (
        value(batch, objective=objective, false_negatives=way)
        for way in ("keep", "drop", "relabel")
    )
    assert len({round(kept, 5), round(dropped, 5), round(relabelled, 5)}) == 3
    # Without the chunk that stands above the evidence there is less to push away.
    assert dropped < kept


def test_false_negatives_in_triplets_by_hand() -> None:
    batch = make_batch(
        bm25=np.array([[4, 8, 1], [2, 6, 6]], np.float32), candidates=np.ones((2, 3), np.bool_)
    )
    second = 0.2 - 0.2 + 0.3, 0.2 - 0.2 + 0.25
    dropped = (0 + sum(second)) / 3  # first query: 0.2 − 0.5 + 0.1 < 0 is left
    assert value(batch, objective="triplet", false_negatives="drop") == pytest.approx(
        dropped, abs=1e-6
    )
    relabelled = (0 + 0 + sum(second)) / 4  # and 0.2 − 0.6 + 0.1 < 0
    assert value(batch, objective="triplet", false_negatives="relabel") == pytest.approx(
        relabelled, abs=1e-6
    )
