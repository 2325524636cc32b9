"""From a batch to its loss: the recipe's objective, on the vectors of the batch's queries and chunks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training.config import TrainingConfig
from engine.training.data import Batch
from engine.training.objectives import hyperbolic, losses
from engine.training.objectives.teachers import PairScores, Teacher


class Objective:
    """Makes the loss of one batch. `base` and `pairs`: what `Teacher` wants of them."""

    def __init__(
        self, config: TrainingConfig, base: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]] | None, device: str,
        pairs: PairScores | None = None,
    ) -> None:  # fmt: skip
        self._config, self._device = config, device
        self._teacher = Teacher(config, base, pairs, device)

    def of(self, batch: Batch) -> tuple[Callable[[Tensor], Tensor], float]:
        """(loss of the vectors (q + c, d), queries first, then chunks; mean target entropy in nats)."""
        config, count = self._config, len(batch.queries)
        positives = torch.from_numpy(batch.positives).to(self._device)
        teacher = self._teacher.logits(batch)
        candidates = None if batch.candidates is None else torch.from_numpy(batch.candidates).to(self._device)
        wanted = config.target_entropy if config.target == "entropy" else None
        target = losses.target_logits(teacher, candidates, target_entropy=wanted)
        above = None if config.false_negatives == "keep" else losses.false_negatives(teacher, positives, candidates)
        gains = None if batch.gains is None else torch.from_numpy(batch.gains).to(self._device)
        measured = _of_scores(config, positives, target, candidates, above, gains)

        def loss(vectors: Tensor) -> Tensor:
            queries, chunks = vectors[:count], vectors[count:]
            if config.similarity == "cosine":
                return measured(queries @ chunks.T)  # (q, c)
            found = measured(hyperbolic.distance_scores(queries, chunks, config.curvature))
            if not config.entailment_weight:
                return found
            return found + config.entailment_weight * hyperbolic.entailment(
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
    """The recipe's loss of the scores (q, c). `above`: the chunks that the teacher puts above the positive."""
    tau, weight = config.student_temperature, config.infonce_weight
    excluded = above if config.false_negatives == "drop" else None
    relabelled = above if config.false_negatives == "relabel" else None

    def triplet(scores: Tensor) -> Tensor:
        assert candidates is not None
        wanted = torch.nn.functional.one_hot(positives, scores.shape[1]).bool()
        unwanted = candidates & ~wanted if above is None else candidates & ~wanted & ~above
        wanted = wanted if relabelled is None else wanted | relabelled
        return losses.triplet(scores, wanted, unwanted, margin=config.triplet_margin)

    makers: dict[str, Callable[[Tensor], Tensor]] = {
        "mixed": lambda scores: losses.mixed(
            scores, target, positives, infonce_weight=weight, temperature=tau, excluded=excluded, relabelled=relabelled
        ),
        "listnet": lambda scores: losses.listnet(scores, target, temperature=tau, candidates=candidates),
        "listmle": lambda scores: losses.listmle(scores, target, temperature=tau, candidates=candidates),
        "infonce": lambda scores: losses.infonce(
            scores, positives, temperature=tau, excluded=excluded, relabelled=relabelled
        ),
        "triplet": triplet,
        "plackett_luce": lambda scores: losses.plackett_luce(
            scores, positives, temperature=tau, candidates=candidates, label_smoothing=config.label_smoothing,
            excluded=excluded, relabelled=relabelled, gains=gains,
        ),
    }  # fmt: skip
    return makers[config.objective]
