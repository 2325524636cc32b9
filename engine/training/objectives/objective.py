"""The loss of a batch: the teacher's logits of its pairs, and the recipe's objective on vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training.config import TrainingConfig
from engine.training.data import Batch
from engine.training.objectives import losses

BASE_SCALE = 20.0
PairScores = Callable[[Batch], npt.NDArray[np.float32]]


class Teacher:
    """Logits of the recipe's teacher, at the temperature α = `teacher_temperature`.

    `bm25`: BM25/α. `mixture`: `mixture_logits`. `cross-encoder`: its score/α.
    `base` are the untouched encoder's unit vectors of queries (n, d) and chunks (N, d), required
    for `config.needs_base`. `pairs` returns the cross-encoder's scores (q, c) of a batch, required
    if it is the teacher.
    """

    def __init__(
        self,
        config: TrainingConfig,
        base: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]] | None,
        pairs: PairScores | None,
        device: str,
    ) -> None:
        self._config = config
        self._base = base
        self._pairs = pairs
        self._device = device

    def logits(self, batch: Batch) -> Tensor:
        """Return logits (q, c) in float32; only those of a query's candidates are meaningful."""
        config = self._config
        if config.used_teacher == "cross-encoder":
            assert self._pairs is not None
            scores = torch.from_numpy(self._pairs(batch)).to(self._device)
            return scores / config.teacher_temperature
        bm25 = torch.from_numpy(batch.bm25).to(self._device)
        base = None
        if config.needs_base:
            base = self._cosines(batch)
        return mixture_logits(
            bm25, base, bm25_weight=config.teacher_bm25_weight, alpha=config.teacher_temperature
        )

    def _cosines(self, batch: Batch) -> Tensor:
        assert self._base is not None
        queries = self._base[0][batch.queries]
        chunks = self._base[1][batch.chunks]
        cosines = np.asarray(queries, dtype=np.float32) @ np.asarray(chunks, dtype=np.float32).T
        return torch.from_numpy(cosines).to(self._device)


def mixture_logits(
    bm25: Tensor, base: Tensor | None, *, bm25_weight: float, alpha: float
) -> Tensor:
    """Return b·BM25/α + (1 − b)·20·base cosine, b = `bm25_weight`, in the shape of `bm25`.

    BM25/α if `base` is None.
    """
    if base is None:
        return bm25.float() / alpha
    return bm25_weight * bm25.float() / alpha + (1 - bm25_weight) * BASE_SCALE * base.float()


class Objective:
    """Builds the loss of a batch; `base` and `pairs` are as in `Teacher`."""

    def __init__(
        self,
        config: TrainingConfig,
        base: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]] | None,
        device: str,
        pairs: PairScores | None = None,
    ) -> None:
        self._config = config
        self._device = device
        self._teacher = Teacher(config, base, pairs, device)

    def of(self, batch: Batch) -> tuple[Callable[[Tensor], Tensor], float]:
        """Return the loss of vectors (q + c, d), queries first, and the target entropy in nats."""
        config = self._config
        count = len(batch.queries)
        positives = torch.from_numpy(batch.positives).to(self._device)
        teacher = self._teacher.logits(batch)
        candidates = self._to_device(batch.candidates)
        gains = self._to_device(batch.gains)
        entropy = None
        if config.target == "entropy":
            entropy = config.target_entropy
        target = losses.target_logits(teacher, candidates, target_entropy=entropy)
        above = None
        if config.false_negatives != "keep":
            above = losses.false_negatives(teacher, positives, candidates)
        loss_of_scores = _build_loss(config, positives, target, candidates, above, gains)

        def loss(vectors: Tensor) -> Tensor:
            queries = vectors[:count]
            chunks = vectors[count:]
            if config.similarity == "cosine":
                return loss_of_scores(queries @ chunks.T)  # (q, c)
            scores = losses.distance_scores(queries, chunks, config.curvature)
            value = loss_of_scores(scores)
            if config.entailment_weight:
                outside = losses.entailment(queries, chunks[positives], config.curvature)
                value = value + config.entailment_weight * outside
            return value

        return loss, losses.entropy(target).mean().item()

    def _to_device(self, values: npt.NDArray[Any] | None) -> Tensor | None:
        if values is None:
            return None
        return torch.from_numpy(values).to(self._device)


def _build_loss(
    config: TrainingConfig,
    positives: Tensor,
    target: Tensor,
    candidates: Tensor | None,
    above: Tensor | None,
    gains: Tensor | None,
) -> Callable[[Tensor], Tensor]:
    """Return the recipe's loss as a function of scores (q, c).

    `above` are the chunks that the teacher ranks above the positive.
    """
    tau = config.student_temperature
    excluded = None
    if config.false_negatives == "drop":
        excluded = above
    relabelled = None
    if config.false_negatives == "relabel":
        relabelled = above

    def mixed(scores: Tensor) -> Tensor:
        return losses.mixed(
            scores,
            target,
            positives,
            infonce_weight=config.infonce_weight,
            temperature=tau,
            excluded=excluded,
            relabelled=relabelled,
        )

    def listnet(scores: Tensor) -> Tensor:
        return losses.listnet(scores, target, temperature=tau, candidates=candidates)

    def listmle(scores: Tensor) -> Tensor:
        return losses.listmle(scores, target, temperature=tau, candidates=candidates)

    def infonce(scores: Tensor) -> Tensor:
        return losses.infonce(
            scores, positives, temperature=tau, excluded=excluded, relabelled=relabelled
        )

    def triplet(scores: Tensor) -> Tensor:
        assert candidates is not None
        wanted = torch.nn.functional.one_hot(positives, scores.shape[1]).bool()
        unwanted = candidates & ~wanted
        if above is not None:
            unwanted = unwanted & ~above
        if relabelled is not None:
            wanted = wanted | relabelled
        return losses.triplet(scores, wanted, unwanted, margin=config.triplet_margin)

    def plackett_luce(scores: Tensor) -> Tensor:
        return losses.plackett_luce(
            scores,
            positives,
            temperature=tau,
            candidates=candidates,
            label_smoothing=config.label_smoothing,
            excluded=excluded,
            relabelled=relabelled,
            gains=gains,
        )

    builders: dict[str, Callable[[Tensor], Tensor]] = {
        "mixed": mixed,
        "listnet": listnet,
        "listmle": listmle,
        "infonce": infonce,
        "triplet": triplet,
        "plackett_luce": plackett_luce,
    }
    return builders[config.objective]
