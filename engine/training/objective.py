"""From a batch to its loss: the recipe's objective, on the vectors of the batch's queries and chunks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training import losses
from engine.training.config import TrainingConfig
from engine.training.data import Batch


class Objective:
    """Makes the loss of one batch.

    `base`: the untouched encoder's unit vectors of queries (n, d) and chunks (N, d), wanted where `needs_base(config)`.
    """

    def __init__(
        self,
        config: TrainingConfig,
        base: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]] | None,
        device: str,
    ) -> None:
        self._config, self._device = config, device
        self._base = base

    def of(self, batch: Batch) -> tuple[Callable[[Tensor], Tensor], float]:
        """(loss of the vectors (q + c, d), queries first, then chunks; mean target entropy in nats)."""
        config, count = self._config, len(batch.queries)
        positives = torch.from_numpy(batch.positives).to(self._device)
        teacher = self._teacher(batch)
        candidates = None if batch.candidates is None else torch.from_numpy(batch.candidates).to(self._device)
        wanted = config.target_entropy if config.target == "entropy" else None
        target = losses.target_logits(teacher, candidates, target_entropy=wanted)
        excluded = losses.false_negatives(teacher, positives) if config.mask_false_negatives else None

        def loss(vectors: Tensor) -> Tensor:
            scores = vectors[:count] @ vectors[count:].T  # (q, c)
            tau = config.student_temperature
            if config.objective == "listnet":
                return losses.listnet(scores, target, temperature=tau, candidates=candidates)
            if config.objective == "infonce":
                return losses.infonce(scores, positives, temperature=tau)
            return losses.mixed(
                scores, target, positives, infonce_weight=config.infonce_weight, temperature=tau, excluded=excluded
            )

        return loss, losses.entropy(target).mean().item()

    def _teacher(self, batch: Batch) -> Tensor:
        config = self._config
        bm25 = torch.from_numpy(batch.bm25).to(self._device)
        base: Tensor | None = None
        if needs_base(config):
            assert self._base is not None
            queries, chunks = self._base[0][batch.queries], self._base[1][batch.chunks]
            cosines = np.asarray(queries, dtype=np.float32) @ np.asarray(chunks, dtype=np.float32).T
            base = torch.from_numpy(cosines).to(self._device)
        return losses.teacher_logits(
            bm25, base, bm25_weight=config.teacher_bm25_weight, alpha=config.teacher_temperature
        )


def needs_base(config: TrainingConfig) -> bool:
    """Whether the teacher mixes in the untouched encoder's cosine."""
    return config.objective == "mixed" and config.teacher_bm25_weight < 1
