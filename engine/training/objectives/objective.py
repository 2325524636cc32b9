"""The loss of a batch: the teacher's logits of its pairs, and the recipe's objective on vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, assert_never

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.core.arrays import Floats
from engine.training.batches import Batch
from engine.training.config import TrainingConfig
from engine.training.objectives import hyperbolic, losses

BASE_SCALE = 20.0
"""Factor of cosines in the teacher's logits: 1/τ with τ = 0.05, as for the student's."""
PairScores = Callable[[Batch], Floats]
"""Returns a cross-encoder's scores (q, c) of a batch."""


class BaseVectors(NamedTuple):
    """The untouched encoder's unit vectors of queries (n, d) and chunks (N, d)."""

    queries: npt.NDArray[np.floating]
    chunks: npt.NDArray[np.floating]


class Teacher:
    """Logits of the recipe's teacher, at the temperature α = `teacher_temperature`.

    METHODS.md §5, "Teachers". `bm25`: BM25/α. `mixture`: `mixture_logits`. `cross-encoder`: its
    score/α.
    `base` is required for `config.needs_base`, `pairs` if a cross-encoder is the teacher.
    """

    def __init__(
        self,
        config: TrainingConfig,
        base: BaseVectors | None,
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
        queries = self._base.queries[batch.queries].astype(np.float32)
        chunks = self._base.chunks[batch.chunks].astype(np.float32)
        cosines = queries @ chunks.T  # (q, c)
        return torch.from_numpy(cosines).to(self._device)


def mixture_logits(
    bm25: Tensor, base: Tensor | None, *, bm25_weight: float, alpha: float
) -> Tensor:
    """Return b·BM25/α + (1 − b)·20·base cosine, b = `bm25_weight`, α = `alpha`, all (q, c).

    METHODS.md §5, "Teachers". BM25/α if `base` is None.
    """
    if base is None:
        return bm25.float() / alpha
    bm25_part = bm25_weight * bm25.float() / alpha
    base_part = (1 - bm25_weight) * BASE_SCALE * base.float()
    return bm25_part + base_part


class Objective:
    """Builds the loss of a batch; `base` and `pairs` are as in `Teacher`."""

    def __init__(
        self,
        config: TrainingConfig,
        base: BaseVectors | None,
        device: str,
        pairs: PairScores | None = None,
    ) -> None:
        self._config = config
        self._device = device
        self._teacher = Teacher(
            config,
            base,
            pairs,
            device,
        )

    def build_loss(self, batch: Batch) -> tuple[Callable[[Tensor], Tensor], float]:
        """Return the loss as a function of vectors (q + c, d), queries first.

        Also return the mean entropy of the batch's targets in nats.
        """
        config = self._config
        count = len(batch.queries)
        positives = torch.from_numpy(batch.positives).to(self._device)
        teacher = self._teacher.logits(batch)
        candidates = self._to_device(batch.candidates)
        gains = self._to_device(batch.gains)
        target_entropy = None
        if config.target == "entropy":
            target_entropy = config.target_entropy
        target = losses.target_logits(
            teacher,
            candidates,
            target_entropy=target_entropy,
        )
        false_negatives = None
        if config.false_negatives != "keep":
            false_negatives = losses.false_negatives(teacher, positives, candidates)
        loss_of_scores = _build_loss_of_scores(
            config, positives, target, candidates, false_negatives, gains
        )

        def loss(vectors: Tensor) -> Tensor:
            """Return the batch's loss for the vectors (q + c, d) of its queries and chunks."""
            queries = vectors[:count]  # (q, d)
            chunks = vectors[count:]  # (c, d)
            if config.similarity == "cosine":
                return loss_of_scores(queries @ chunks.T)  # (q, c)
            scores = hyperbolic.distance_scores(
                queries,
                chunks,
                config.curvature,
            )
            value = loss_of_scores(scores)
            if config.entailment_weight:
                entailment = hyperbolic.entailment(
                    queries,
                    chunks[positives],
                    config.curvature,
                )
                value = value + config.entailment_weight * entailment
            return value

        return loss, losses.entropy(target).mean().item()

    def _to_device(self, values: npt.NDArray[Any] | None) -> Tensor | None:
        """Return an array as a tensor on the device; None for None."""
        if values is None:
            return None
        return torch.from_numpy(values).to(self._device)


def _build_loss_of_scores(
    config: TrainingConfig,
    positives: Tensor,
    target: Tensor,
    candidates: Tensor | None,
    false_negatives: Tensor | None,
    gains: Tensor | None,
) -> Callable[[Tensor], Tensor]:
    """Return the recipe's loss as a function of scores (q, c).

    `target`: the teacher's logits (q, c). The other arguments are as in the losses.
    """
    tau = config.student_temperature
    if config.objective == "listnet":
        return partial(
            losses.listnet,
            teacher=target,
            temperature=tau,
            candidates=candidates,
        )
    if config.objective == "listmle":
        return partial(
            losses.listmle,
            teacher=target,
            temperature=tau,
            candidates=candidates,
        )
    if config.objective == "triplet":
        assert candidates is not None
        wanted = torch.nn.functional.one_hot(positives, candidates.shape[1]).bool()
        unwanted = candidates & ~wanted
        if false_negatives is not None:
            unwanted = unwanted & ~false_negatives
        if false_negatives is not None and config.false_negatives == "relabel":
            wanted = wanted | false_negatives
        return partial(
            losses.triplet, positives=wanted, negatives=unwanted, margin=config.triplet_margin
        )
    contrastive: dict[str, Any] = {
        "positives": positives,
        "temperature": tau,
        "excluded": false_negatives if config.false_negatives == "drop" else None,
        "relabelled": false_negatives if config.false_negatives == "relabel" else None,
    }
    if config.objective == "infonce":
        return partial(losses.infonce, **contrastive)
    if config.objective == "mixed":
        weight = config.infonce_weight
        return partial(
            losses.mixed,
            teacher=target,
            infonce_weight=weight,
            **contrastive,
        )
    if config.objective == "plackett_luce":
        return partial(
            losses.plackett_luce,
            candidates=candidates,
            label_smoothing=config.label_smoothing,
            gains=gains,
            **contrastive,
        )
    assert_never(config.objective)
