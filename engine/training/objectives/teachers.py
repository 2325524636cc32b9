"""What the student learns from: each teacher's logits for the (query, chunk) pairs of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training.config import TrainingConfig
from engine.training.data import Batch

BASE_SCALE = 20.0
PairScores = Callable[[Batch], npt.NDArray[np.float32]]


class Teacher:
    """Logits of the recipe's teacher, α = `teacher_temperature`.

    `bm25`: BM25/α. `mixture`: `mixture_logits`. `cross-encoder`: its score/α.
    `base`: the untouched encoder's unit vectors of queries (n, d) and chunks (N, d), wanted where `config.needs_base`.
    `pairs`: the cross-encoder's scores (q, c) of a batch, wanted where it is the teacher.
    """

    def __init__(
        self, config: TrainingConfig, base: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]] | None,
        pairs: PairScores | None, device: str,
    ) -> None:  # fmt: skip
        self._config, self._base, self._pairs, self._device = config, base, pairs, device

    def logits(self, batch: Batch) -> Tensor:
        """Logits (q, c) in float32; those of chunks that are no candidates of a query mean nothing."""
        config = self._config
        if config.used_teacher == "cross-encoder":
            assert self._pairs is not None
            return torch.from_numpy(self._pairs(batch)).to(self._device) / config.teacher_temperature
        bm25 = torch.from_numpy(batch.bm25).to(self._device)
        base = self._cosines(batch) if config.needs_base else None
        return mixture_logits(bm25, base, bm25_weight=config.teacher_bm25_weight, alpha=config.teacher_temperature)

    def _cosines(self, batch: Batch) -> Tensor:
        assert self._base is not None
        queries, chunks = self._base[0][batch.queries], self._base[1][batch.chunks]
        cosines = np.asarray(queries, dtype=np.float32) @ np.asarray(chunks, dtype=np.float32).T
        return torch.from_numpy(cosines).to(self._device)


def mixture_logits(bm25: Tensor, base: Tensor | None, *, bm25_weight: float, alpha: float) -> Tensor:
    """b·BM25/α + (1 − b)·20·base cosine, b = `bm25_weight`; BM25/α alone where `base` is None. Shape of `bm25`."""
    if base is None:
        return bm25.float() / alpha
    return bm25_weight * bm25.float() / alpha + (1 - bm25_weight) * BASE_SCALE * base.float()
