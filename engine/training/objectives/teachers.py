"""What the student learns from: each teacher's logits for the (query, chunk) pairs of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.ranking.fusion import RRF_CONSTANT
from engine.training.config import TrainingConfig
from engine.training.data import Batch

BASE_SCALE = 20.0
PairScores = Callable[[Batch], npt.NDArray[np.float32]]


class Teacher:
    """Logits of the recipe's teacher, α = `teacher_temperature`.

    `bm25`: BM25/α. `mixture`: `mixture_logits`. `rrf`: `rrf_logits`. `cross-encoder`: its score/α.
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
        if config.used_teacher == "rrf":
            assert base is not None
            candidates = None if batch.candidates is None else torch.from_numpy(batch.candidates).to(self._device)
            return rrf_logits(bm25, base, alpha=config.teacher_temperature, candidates=candidates)
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


def rrf_logits(bm25: Tensor, base: Tensor, *, alpha: float, candidates: Tensor | None = None) -> Tensor:
    """20·(rrf_k + 1)/α · Σ_a 1/(rrf_k + rank_a), a = BM25 and base cosine: reciprocal rank fusion (METHODS.md §1) as logits.

    Ranks count from 1 among the chunks of the batch, or among a query's `candidates`; equals share the best rank. A chunk
    outside the query's BM25 ranking (BM25 0) gets nothing from BM25. At α = 2 a chunk that is first twice has 20, like a
    cosine of 1 in the mixture; the tenth has 16.4, the hundredth 5.9. All (n, m).
    """
    total = torch.zeros_like(bm25, dtype=torch.float32)
    for scores, found in ((bm25.float(), bm25 > 0), (base.float(), torch.ones_like(base, dtype=torch.bool))):
        seen = scores if candidates is None else scores.masked_fill(~candidates, -torch.inf)
        gains = 1 / (RRF_CONSTANT + _ranks(seen))
        total += gains.masked_fill(~found, 0.0)
    return BASE_SCALE * (RRF_CONSTANT + 1) / alpha * total


def _ranks(scores: Tensor) -> Tensor:
    """1 + the number of greater scores in the row. (n, m) → (n, m) float32."""
    ascending = scores.sort(dim=1).values
    not_greater = torch.searchsorted(ascending, scores.contiguous(), right=True)
    return (1 + scores.shape[1] - not_greater).float()
