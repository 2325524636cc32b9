"""From a batch to its loss: what the teacher says of its pairs, and the recipe's objective on
vectors of queries and chunks.
"""

from __future__ import annotations

from collections.abc import Callable

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
    """Logits of the recipe's teacher, α = `teacher_temperature`.

    `bm25`: BM25/α. `mixture`: `mixture_logits`. `cross-encoder`: its score/α.
    `base`: the untouched encoder's unit vectors of queries (n, d) and chunks (N, d), wanted where
        `config.needs_base`.
    `pairs`: the cross-encoder's scores (q, c) of a batch, wanted where it is the teacher.
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
        """Logits (q, c) in float32; those of chunks that are no candidates of a query mean
        nothing.
        """
        config = self._config
        if config.used_teacher == "cross-encoder":
            assert self._pairs is not None
            return (
                torch.from_numpy(self._pairs(batch)).to(self._device) / config.teacher_temperature
            )
        bm25 = torch.from_numpy(batch.bm25).to(self._device)
        if config.needs_base:
            base = self._cosines(batch)
        else:
            base = None
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
    """b·BM25/α + (1 − b)·20·base cosine, b = `bm25_weight`; BM25/α alone where `base` is None.

    Shape of `bm25`.
    """
    if base is None:
        return bm25.float() / alpha
    return bm25_weight * bm25.float() / alpha + (1 - bm25_weight) * BASE_SCALE * base.float()


class Objective:
    """Makes the loss of one batch. `base` and `pairs`: what `Teacher` wants of them."""

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
        """(loss of the vectors (q + c, d), queries first, then chunks; mean target entropy in
        nats).
        """
        config = self._config
        count = len(batch.queries)
        positives = torch.from_numpy(batch.positives).to(self._device)
        teacher = self._teacher.logits(batch)
        if batch.candidates is None:
            candidates = None
        else:
            candidates = torch.from_numpy(batch.candidates).to(self._device)
        if config.target == "entropy":
            wanted = config.target_entropy
        else:
            wanted = None
        target = losses.target_logits(teacher, candidates, target_entropy=wanted)
        if config.false_negatives == "keep":
            above = None
        else:
            above = losses.false_negatives(teacher, positives, candidates)
        if batch.gains is None:
            gains = None
        else:
            gains = torch.from_numpy(batch.gains).to(self._device)
        measured = _of_scores(config, positives, target, candidates, above, gains)

        def loss(vectors: Tensor) -> Tensor:
            queries = vectors[:count]
            chunks = vectors[count:]
            if config.similarity == "cosine":
                return measured(queries @ chunks.T)  # (q, c)
            found = measured(losses.distance_scores(queries, chunks, config.curvature))
            if not config.entailment_weight:
                return found
            return found + config.entailment_weight * losses.entailment(
                queries, chunks[positives], config.curvature
            )

        return loss, losses.entropy(target).mean().item()


def _of_scores(
    config: TrainingConfig,
    positives: Tensor,
    target: Tensor,
    candidates: Tensor | None,
    above: Tensor | None,
    gains: Tensor | None,
) -> Callable[[Tensor], Tensor]:
    """The recipe's loss of the scores (q, c).

    `above`: the chunks that the teacher puts above the positive.
    """
    tau = config.student_temperature
    weight = config.infonce_weight
    if config.false_negatives == "drop":
        excluded = above
    else:
        excluded = None
    if config.false_negatives == "relabel":
        relabelled = above
    else:
        relabelled = None

    def triplet(scores: Tensor) -> Tensor:
        assert candidates is not None
        wanted = torch.nn.functional.one_hot(positives, scores.shape[1]).bool()
        if above is None:
            unwanted = candidates & ~wanted
        else:
            unwanted = candidates & ~wanted & ~above
        if relabelled is None:
            wanted = wanted
        else:
            wanted = wanted | relabelled
        return losses.triplet(scores, wanted, unwanted, margin=config.triplet_margin)

    makers: dict[str, Callable[[Tensor], Tensor]] = {
        "mixed": lambda scores: losses.mixed(
            scores,
            target,
            positives,
            infonce_weight=weight,
            temperature=tau,
            excluded=excluded,
            relabelled=relabelled,
        ),
        "listnet": lambda scores: losses.listnet(
            scores, target, temperature=tau, candidates=candidates
        ),
        "listmle": lambda scores: losses.listmle(
            scores, target, temperature=tau, candidates=candidates
        ),
        "infonce": lambda scores: losses.infonce(
            scores, positives, temperature=tau, excluded=excluded, relabelled=relabelled
        ),
        "triplet": triplet,
        "plackett_luce": lambda scores: losses.plackett_luce(
            scores,
            positives,
            temperature=tau,
            candidates=candidates,
            label_smoothing=config.label_smoothing,
            excluded=excluded,
            relabelled=relabelled,
            gains=gains,
        ),
    }
    return makers[config.objective]
