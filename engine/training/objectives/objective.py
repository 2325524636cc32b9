"""The loss of a batch: the teacher's logits of its pairs, and the recipe's objective on vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training.batches import Batch
from engine.training.config import TrainingConfig
from engine.training.objectives import hyperbolic, losses

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
        """Return the untouched encoder's cosines (q, c)."""
        assert self._base is not None
        base_queries, base_chunks = self._base
        queries = base_queries[batch.queries].astype(np.float32)
        chunks = base_chunks[batch.chunks].astype(np.float32)
        cosines = queries @ chunks.T
        return torch.from_numpy(cosines).to(self._device)


def mixture_logits(
    bm25: Tensor, base: Tensor | None, *, bm25_weight: float, alpha: float
) -> Tensor:
    """Return b·BM25/α + (1 − b)·20·base cosine, b = `bm25_weight`, in the shape of `bm25`.

    BM25/α if `base` is None.
    """
    if base is None:
        return bm25.float() / alpha
    of_bm25 = bm25_weight * bm25.float() / alpha
    of_base = (1 - bm25_weight) * BASE_SCALE * base.float()
    return of_bm25 + of_base


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
            scores = hyperbolic.distance_scores(queries, chunks, config.curvature)
            value = loss_of_scores(scores)
            if config.entailment_weight:
                outside = hyperbolic.entailment(queries, chunks[positives], config.curvature)
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
    if config.objective == "listnet":
        return partial(losses.listnet, teacher=target, temperature=tau, candidates=candidates)
    if config.objective == "listmle":
        return partial(losses.listmle, teacher=target, temperature=tau, candidates=candidates)
    if config.objective == "triplet":
        assert candidates is not None
        wanted = torch.nn.functional.one_hot(positives, candidates.shape[1]).bool()
        unwanted = candidates & ~wanted
        if above is not None:
            unwanted = unwanted & ~above
        if above is not None and config.false_negatives == "relabel":
            wanted = wanted | above
        return partial(
            losses.triplet, positives=wanted, negatives=unwanted, margin=config.triplet_margin
        )
    contrast: dict[str, Any] = {
        "positives": positives,
        "temperature": tau,
        "excluded": above if config.false_negatives == "drop" else None,
        "relabelled": above if config.false_negatives == "relabel" else None,
    }
    if config.objective == "infonce":
        return partial(losses.infonce, **contrast)
    if config.objective == "mixed":
        weight = config.infonce_weight
        return partial(losses.mixed, teacher=target, infonce_weight=weight, **contrast)
    if config.objective == "plackett_luce":
        return partial(
            losses.plackett_luce,
            candidates=candidates,
            label_smoothing=config.label_smoothing,
            gains=gains,
            **contrast,
        )
    assert_never(config.objective)
