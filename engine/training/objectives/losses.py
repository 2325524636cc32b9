"""Losses on score matrices, in float32 and averaged over the queries.

`scores` (n_queries, n_chunks) are student cosines or −d_L (hyperbolic.py); `teacher` are teacher
logits of the same shape, up to a constant. `candidates` (bool, same shape, optional) restricts a
query to its own chunks; the others get probability 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_BISECTION_STEPS = 50
_EXCLUDED = -1e9
"""Logit of a chunk that gets probability 0; −∞ would make NaN of 0 · log 0."""


def _restrict(logits: Tensor, candidates: Tensor | None) -> Tensor:
    """Return logits that give other chunks than the candidates probability 0."""
    logits = logits.float()
    if candidates is None:
        return logits
    return logits.masked_fill(~candidates, _EXCLUDED)


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy −Σ_j p_j log p_j in nats of p = softmax(logits), by row (n,)."""
    log_p = functional.log_softmax(logits.float(), dim=1)  # (n, m)
    return -(log_p.exp() * log_p).sum(1)


def temperatures_for_entropy(logits: Tensor, target: float) -> Tensor:
    """Return per row (n,) the temperature t at which softmax(logits / t) has `target` nats.

    The entropy grows with t from log(number of maxima) to log(m); a target outside that range is
    met as nearly as t ∈ [1e-3, 1e4] × (largest − smallest logit) allows. Bisection in log t, down
    to what float32 resolves. METHODS.md §1, `target = "entropy"`.
    """
    logits = logits.float()
    is_candidate = logits > _EXCLUDED / 2
    smallest = torch.where(is_candidate, logits, math.inf).amin(1)
    spread = logits.amax(1) - smallest  # (n,)
    log_spread = spread.clamp_min(1e-9).log()
    low = log_spread + math.log(1e-3)
    high = log_spread + math.log(1e4)
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        temperatures = middle.exp().unsqueeze(1)
        too_low = entropy(logits / temperatures) < target
        low = torch.where(too_low, middle, low)
        high = torch.where(too_low, high, middle)
    return ((low + high) / 2).exp()


def target_logits(
    teacher: Tensor, candidates: Tensor | None = None, *, target_entropy: float | None = None
) -> Tensor:
    """Return the teacher's logits (n, m) over the candidates.

    With `target_entropy` they are divided by the temperature at which each query's target has it.
    """
    logits = _restrict(teacher, candidates)
    if target_entropy is None:
        return logits
    temperatures = temperatures_for_entropy(logits, target_entropy).unsqueeze(1)
    return _restrict(teacher.float() / temperatures, candidates)


def listnet(
    scores: Tensor, teacher: Tensor, *, temperature: float = 0.05, candidates: Tensor | None = None
) -> Tensor:
    """Return the mean over queries of −Σ_j p_j^r log p_j^s (METHODS.md §1; BMEmbed, section 3.3).

    p^r = softmax(teacher), where the teacher's logits are already divided by α, and p^s =
    softmax(scores/τ). It differs from the KL divergence by the target's entropy, a constant: the
    gradients are the same.
    """
    target = functional.softmax(_restrict(teacher, candidates), dim=1)  # p^r (n, m)
    return _cross_entropy(target, scores, temperature, candidates)


def _cross_entropy(
    target: Tensor, scores: Tensor, temperature: float, candidates: Tensor | None
) -> Tensor:
    """Return the mean of −Σ_j target_j log softmax(scores/τ)_j over the rows."""
    logits = _restrict(scores.float() / temperature, candidates)
    log_p = functional.log_softmax(logits, dim=1)  # (n, m)
    return -(target * log_p).sum(1).mean()


def listmle(
    scores: Tensor, teacher: Tensor, *, temperature: float = 0.05, candidates: Tensor | None = None
) -> Tensor:
    """Return the mean of −log P(order by the teacher) under Plackett-Luce, utilities z = scores/τ.

    P(π) = Π_i exp(z_π(i)) / Σ_{k ≥ i} exp(z_π(k)), π from the teacher's best to its worst, equal
    ones by column. METHODS.md §1 (BMEmbed, appendix C; Xia et al. 2008).
    """
    order = _restrict(teacher, candidates).argsort(dim=1, descending=True, stable=True)  # π (n, m)
    logits = _restrict(scores.float() / temperature, candidates).gather(1, order)  # z_π(i)
    log_sums = logits.flip(1).logcumsumexp(1).flip(1)  # (n, m): log Σ_{k ≥ i} exp(z_π(k))
    terms = log_sums - logits  # −log of each factor
    if candidates is not None:
        terms = terms.masked_fill(~candidates.gather(1, order), 0.0)
    return terms.sum(1).mean()


def false_negatives(
    teacher: Tensor,
    positives: Tensor,
    candidates: Tensor | None = None,
) -> Tensor:
    """Return a mask (n, m): which chunks outscore the query's positive under the teacher.

    They are no safe negatives. `positives` (n,) are columns.
    """
    above = teacher > teacher.gather(1, positives.unsqueeze(1))
    if candidates is None:
        return above
    return above & candidates


def infonce(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float = 0.05,
    excluded: Tensor | None = None,
    relabelled: Tensor | None = None,
) -> Tensor:
    """Return the mean of −log softmax(scores/τ) at the positive chunk (METHODS.md §1, preset `cl`).

    The other chunks of the batch are negatives unless `excluded` (n, m). `positives` (n,) are the
    columns of the queries' evidence chunks, which are never excluded. `relabelled` chunks (bool,
    (n, m)) are further positives: the mean of −log softmax over all positives of a query, as L_out
    of Khosla et al. 2020 ("Supervised contrastive learning").
    """
    if relabelled is not None:
        return plackett_luce(
            scores, positives, temperature=temperature, excluded=excluded, relabelled=relabelled
        )
    logits = scores.float() / temperature
    if excluded is not None:
        negatives = ~_one_hot(scores, positives)
        logits = logits.masked_fill(excluded & negatives, _EXCLUDED)
    return functional.cross_entropy(logits, positives)


def plackett_luce(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float = 0.05,
    candidates: Tensor | None = None,
    label_smoothing: float = 0.0,
    excluded: Tensor | None = None,
    relabelled: Tensor | None = None,
    gains: Tensor | None = None,
) -> Tensor:
    """Return top-1 Plackett-Luce over each query's candidates, with label smoothing ε.

    METHODS.md §2 (Mafin, sections 3.1 and 4.3): the mean of −Σ_j y_j log softmax(scores/τ)_j over
    the m candidates, y = (1 − ε)·positive + ε/m. Several positives (`relabelled`) share the 1 − ε
    evenly, or by their `gains` (n, m); `excluded` chunks leave the list. The evidence chunk
    (`positives`) is always in it.
    """
    evidence = _one_hot(scores, positives)  # (n, m), as all that follow
    listed = torch.ones_like(evidence) if candidates is None else candidates
    if excluded is not None:
        listed = listed & ~excluded
    listed = listed | evidence
    answers = evidence
    if relabelled is not None:
        answers = evidence | (relabelled & listed)
    positive = _normalize_rows(answers)
    if gains is not None:
        positive = _normalize_rows(gains * listed)
    uniform = _normalize_rows(listed)  # 1/m
    target = (1 - label_smoothing) * positive + label_smoothing * uniform  # y
    return _cross_entropy(target, scores, temperature, listed)


def triplet(
    scores: Tensor,
    positives: Tensor,
    negatives: Tensor,
    *,
    margin: float,
) -> Tensor:
    """Return the mean of max(0, d(q, c⁺) − d(q, c⁻) + margin), d = 1 − cosine, over all triplets.

    A triplet is a query with a positive and a negative; `positives` and `negatives` are bool
    (n, m). 0 without any triplet. METHODS.md §3, FT.
    """
    listed = positives | negatives
    width = int(listed.sum(1).max())  # w, the most chunks that a query has
    # Each row's positives and negatives come first, so that the others can be cut off.
    order = listed.int().argsort(
        dim=1,
        descending=True,
        stable=True,
    )
    columns = order[:, :width]
    listed_scores = scores.float().gather(1, columns)  # (n, w)
    is_positive = positives.gather(1, columns).unsqueeze(2)  # (n, w, 1)
    is_negative = negatives.gather(1, columns).unsqueeze(1)  # (n, 1, w)
    is_triplet = is_positive & is_negative  # (n, w, w)
    # d(q, c⁺) − d(q, c⁻) + margin = s(q, c⁻) − s(q, c⁺) + margin
    violations = margin - listed_scores.unsqueeze(2) + listed_scores.unsqueeze(1)
    losses = functional.relu(violations).masked_fill(~is_triplet, 0.0)
    return losses.sum() / is_triplet.sum().clamp_min(1)


def _one_hot(scores: Tensor, positives: Tensor) -> Tensor:
    """Return a mask in the shape of `scores`, true at each row's positive."""
    return functional.one_hot(positives, scores.shape[1]).bool()


def _normalize_rows(weights: Tensor) -> Tensor:
    """Return rows that sum to 1, proportional to the weights."""
    return weights.float() / weights.sum(1, keepdim=True)


def mixed(
    scores: Tensor,
    teacher: Tensor,
    positives: Tensor,
    *,
    infonce_weight: float,
    temperature: float = 0.05,
    excluded: Tensor | None = None,
    relabelled: Tensor | None = None,
) -> Tensor:
    """Return w·InfoNCE + (1 − w)·ListNet, w = `infonce_weight` (METHODS.md §5, "Mixed loss").

    A part of weight 0 is not computed.
    """
    parts: list[Tensor] = []
    if infonce_weight > 0:
        contrastive = infonce(
            scores, positives, temperature=temperature, excluded=excluded, relabelled=relabelled
        )
        parts.append(infonce_weight * contrastive)
    if infonce_weight < 1:
        parts.append((1 - infonce_weight) * listnet(scores, teacher, temperature=temperature))
    return torch.stack(parts).sum()
