"""Losses on score matrices. All of them compute in float32 with log_softmax and average over the queries.

`scores` are student cosines (n_queries, n_chunks); `teacher` are teacher logits of the same shape, any constant added.
`candidates` (bool, same shape, optional) restricts a query to its own chunks; the others get probability 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_EXCLUDED = -1e9


def _restrict(logits: Tensor, candidates: Tensor | None) -> Tensor:
    logits = logits.float()
    return logits if candidates is None else logits.masked_fill(~candidates, _EXCLUDED)


def teacher_logits(
    bm25: Tensor, base: Tensor | None, *, bm25_weight: float, alpha: float, base_scale: float = 20.0
) -> Tensor:
    """b·BM25/α + (1 − b)·20·base cosine, b = `bm25_weight`; BM25/α alone where `base` is None. Shape of `bm25`."""
    if base is None:
        return bm25.float() / alpha
    return bm25_weight * bm25.float() / alpha + (1 - bm25_weight) * base_scale * base.float()


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of softmax(logits) per row. (n, m) → (n,)."""
    log_p = functional.log_softmax(logits.float(), dim=1)
    return -(log_p.exp() * log_p).sum(1)


def temperatures_for_entropy(logits: Tensor, target: float, *, rounds: int = 50) -> Tensor:
    """Per row the temperature t at which softmax(logits / t) has `target` nats of entropy. (n, m) → (n,).

    The entropy grows with t from log(number of maxima) to log(m); a target outside that range is met as nearly as
    t ∈ [1e-3, 1e4] × (largest − smallest logit) allows. Bisection in log t, down to what float32 resolves.
    """
    logits = logits.float()
    real = logits > _EXCLUDED / 2
    spread = logits.amax(1) - torch.where(real, logits, math.inf).amin(1)
    centre = spread.clamp_min(1e-9).log()
    low, high = centre + math.log(1e-3), centre + math.log(1e4)
    for _ in range(rounds):
        middle = (low + high) / 2
        below = entropy(logits / middle.exp().unsqueeze(1)) < target
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return ((low + high) / 2).exp()


def target_logits(teacher: Tensor, candidates: Tensor | None = None, *, target_entropy: float | None = None) -> Tensor:
    """The teacher's logits over the candidates; with `target_entropy`, at each query's temperature for it."""
    logits = _restrict(teacher, candidates)
    if target_entropy is None:
        return logits
    return _restrict(teacher.float() / temperatures_for_entropy(logits, target_entropy).unsqueeze(1), candidates)


def listnet(scores: Tensor, teacher: Tensor, *, temperature: float = 0.05, candidates: Tensor | None = None) -> Tensor:
    """Cross-entropy −Σ_j p_j^r log p_j^s, p^r = softmax(teacher), p^s = softmax(scores/τ): METHODS.md §1, mean.

    It differs from the KL divergence by the target's entropy, a constant: the gradients are the same.
    """
    target = functional.softmax(_restrict(teacher, candidates), dim=1)
    log_p = functional.log_softmax(_restrict(scores.float() / temperature, candidates), dim=1)
    return -(target * log_p).sum(1).mean()


def false_negatives(teacher: Tensor, positives: Tensor) -> Tensor:
    """True where a chunk outscores the query's positive under the teacher: no safe negative. (n, m), (n,) → (n, m)."""
    return teacher > teacher.gather(1, positives.unsqueeze(1))


def infonce(scores: Tensor, positives: Tensor, *, temperature: float = 0.05, excluded: Tensor | None = None) -> Tensor:
    """−log softmax(scores/τ) at the positive chunk; the other chunks of the batch are negatives unless `excluded`.

    `positives`: column of each query's evidence chunk, int64 (n,). The positive itself is never excluded.
    """
    logits = scores.float() / temperature
    if excluded is not None:
        own = functional.one_hot(positives, scores.shape[1]).bool()
        logits = logits.masked_fill(excluded & ~own, _EXCLUDED)
    return functional.cross_entropy(logits, positives)


def mixed(
    scores: Tensor,
    teacher: Tensor,
    positives: Tensor,
    *,
    infonce_weight: float,
    temperature: float = 0.05,
    excluded: Tensor | None = None,
) -> Tensor:
    """w·InfoNCE + (1 − w)·ListNet, w = `infonce_weight`. A part of weight 0 is left out."""
    parts: list[Tensor] = []
    if infonce_weight > 0:
        parts.append(infonce_weight * infonce(scores, positives, temperature=temperature, excluded=excluded))
    if infonce_weight < 1:
        parts.append((1 - infonce_weight) * listnet(scores, teacher, temperature=temperature))
    return torch.stack(parts).sum()
