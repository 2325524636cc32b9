"""Losses on score matrices, in float32 and averaged over the queries.

`scores` are student cosines or −d_L, (n_queries, n_chunks); `teacher` are teacher logits of the
same shape, up to a constant. `candidates` (bool, same shape, optional) restricts a query to its own
chunks; the others get probability 0.
"""

# Points of hyperbolic space (METHODS.md §4) are given by their space parts x: x_time = √(1/c +
# ‖x‖²), ⟨x, y⟩_L = x·y − x_time y_time. Desai et al. 2023, "Hyperbolic image-text representations".

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_EXCLUDED = -1e9


def _restrict(logits: Tensor, candidates: Tensor | None) -> Tensor:
    logits = logits.float()
    if candidates is None:
        return logits
    return logits.masked_fill(~candidates, _EXCLUDED)


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy in nats of softmax(logits) per row (n,)."""
    log_p = functional.log_softmax(logits.float(), dim=1)
    return -(log_p.exp() * log_p).sum(1)


def temperatures_for_entropy(logits: Tensor, target: float, *, rounds: int = 50) -> Tensor:
    """Return per row (n,) the temperature t at which softmax(logits / t) has `target` nats.

    The entropy grows with t from log(number of maxima) to log(m); a target outside that range is
    met as nearly as t ∈ [1e-3, 1e4] × (largest − smallest logit) allows. Bisection in log t, down
    to what float32 resolves.
    """
    logits = logits.float()
    real = logits > _EXCLUDED / 2
    spread = logits.amax(1) - torch.where(real, logits, math.inf).amin(1)
    centre = spread.clamp_min(1e-9).log()
    low = centre + math.log(1e-3)
    high = centre + math.log(1e4)
    for _ in range(rounds):
        middle = (low + high) / 2
        below = entropy(logits / middle.exp().unsqueeze(1)) < target
        low = torch.where(below, middle, low)
        high = torch.where(below, high, middle)
    return ((low + high) / 2).exp()


def target_logits(
    teacher: Tensor, candidates: Tensor | None = None, *, target_entropy: float | None = None
) -> Tensor:
    """Return the teacher's logits over the candidates.

    With `target_entropy` they are at each query's temperature for it.
    """
    logits = _restrict(teacher, candidates)
    if target_entropy is None:
        return logits
    temperatures = temperatures_for_entropy(logits, target_entropy).unsqueeze(1)
    return _restrict(teacher.float() / temperatures, candidates)


def listnet(
    scores: Tensor, teacher: Tensor, *, temperature: float = 0.05, candidates: Tensor | None = None
) -> Tensor:
    """Return the mean cross-entropy −Σ_j p_j^r log p_j^s, p^r = softmax(teacher).

    p^s = softmax(scores/τ); METHODS.md §1. It differs from the KL divergence by the target's
    entropy, a constant: the gradients are the same.
    """
    target = functional.softmax(_restrict(teacher, candidates), dim=1)
    log_p = functional.log_softmax(_restrict(scores.float() / temperature, candidates), dim=1)
    return -(target * log_p).sum(1).mean()


def listmle(
    scores: Tensor, teacher: Tensor, *, temperature: float = 0.05, candidates: Tensor | None = None
) -> Tensor:
    """Return the mean of −log P(order by the teacher) under Plackett-Luce, utilities z = scores/τ.

    Xia et al. 2008. P(π) = Π_i exp(z_π(i)) / Σ_{k ≥ i} exp(z_π(k)), π from the teacher's best to
    its worst, equal ones by column.
    """
    order = _restrict(teacher, candidates).argsort(dim=1, descending=True, stable=True)
    logits = _restrict(scores.float() / temperature, candidates).gather(1, order)
    terms = logits.flip(1).logcumsumexp(1).flip(1) - logits  # (n, m): −log of each factor
    if candidates is not None:
        terms = terms.masked_fill(~candidates.gather(1, order), 0.0)
    return terms.sum(1).mean()


def false_negatives(teacher: Tensor, positives: Tensor, candidates: Tensor | None = None) -> Tensor:
    """Return where a chunk outscores the query's positive under the teacher (n, m).

    Such a chunk is no safe negative. `positives` (n,) are columns.
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
    """Return the mean of −log softmax(scores/τ) at the positive chunk.

    The other chunks of the batch are negatives unless `excluded`. `positives` (n,) int64 are the
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
        logits = logits.masked_fill(excluded & ~_one_hot(scores, positives), _EXCLUDED)
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

    METHODS.md §2, Mafin: the mean of −Σ_j y_j log softmax(scores/τ)_j over the m candidates,
    y = (1 − ε)·positive + ε/m. Several positives (`relabelled`) share the 1 − ε evenly, or by their
    `gains` (n, m); `excluded` chunks leave the list. The evidence chunk (`positives`) is always in
    it.
    """
    evidence = _one_hot(scores, positives)
    listed = torch.ones_like(evidence) if candidates is None else candidates
    if excluded is not None:
        listed = listed & ~excluded
    listed = listed | evidence
    answers = evidence
    if relabelled is not None:
        answers = evidence | (relabelled & listed)
    shares = _normalize_rows(answers)
    if gains is not None:
        shares = _normalize_rows(gains * listed)
    target = (1 - label_smoothing) * shares + label_smoothing * _normalize_rows(listed)
    log_p = functional.log_softmax(_restrict(scores.float() / temperature, listed), dim=1)
    return -(target * log_p).sum(1).mean()


def triplet(scores: Tensor, positives: Tensor, negatives: Tensor, *, margin: float) -> Tensor:
    """Return the mean of max(0, d(q, c⁺) − d(q, c⁻) + margin), d = 1 − cosine, over all triplets.

    A triplet is a query with a positive and a negative; `positives` and `negatives` are bool
    (n, m). 0 without any triplet.
    """
    listed = positives | negatives
    width = int(listed.sum(1).max())
    # Each row's positives and negatives come first.
    order = listed.int().argsort(dim=1, descending=True, stable=True)
    columns = order[:, :width]
    own = scores.float().gather(1, columns)
    wanted = positives.gather(1, columns)
    unwanted = negatives.gather(1, columns)
    pairs = wanted.unsqueeze(2) & unwanted.unsqueeze(1)  # (n, width, width)
    short = functional.relu(margin - own.unsqueeze(2) + own.unsqueeze(1))
    return short.masked_fill(~pairs, 0.0).sum() / pairs.sum().clamp_min(1)


def _one_hot(scores: Tensor, positives: Tensor) -> Tensor:
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
    """Return w·InfoNCE + (1 − w)·ListNet, w = `infonce_weight`, without a part of weight 0."""
    parts: list[Tensor] = []
    if infonce_weight > 0:
        contrast = infonce(
            scores, positives, temperature=temperature, excluded=excluded, relabelled=relabelled
        )
        parts.append(infonce_weight * contrast)
    if infonce_weight < 1:
        parts.append((1 - infonce_weight) * listnet(scores, teacher, temperature=temperature))
    return torch.stack(parts).sum()


APERTURE = 0.1
"""Aperture constant: points nearer to the origin than 2 APERTURE/√c hold half of the space."""
# Distance from the ends of acosh, acos and asin, where their slopes are infinite.
_EPSILON = 1e-6


def distance_scores(queries: Tensor, chunks: Tensor, curvature: float) -> Tensor:
    """Return −d_L = −√(1/c) acosh(−c⟨x, y⟩_L) of queries (q, d) and chunks (n, d): (q, n)."""
    times = _time(queries, curvature)[:, None] * _time(chunks, curvature)
    products = queries @ chunks.T - times
    angles = torch.acosh((-curvature * products).clamp_min(1 + _EPSILON))
    scores: Tensor = -angles / curvature**0.5
    return scores


def entailment(queries: Tensor, passages: Tensor, curvature: float) -> Tensor:
    """Return the mean of max(0, ext(q, c) − aper(q)) over pairs (n, d), (n, d).

    It is how far passages lie outside the cones of their queries:
    aper(x) = asin(2 APERTURE/(√c‖x‖)),
    ext(x, y) = acos((y_time + x_time c⟨x, y⟩_L) / (‖x‖ √((c⟨x, y⟩_L)² − 1))).
    """
    time = _time(queries, curvature)
    other = _time(passages, curvature)
    product = curvature * ((queries * passages).sum(1) - time * other)
    length = queries.norm(dim=1).clamp_min(_EPSILON)
    across = length * (product.square() - 1).clamp_min(_EPSILON).sqrt()
    exterior = torch.acos(((other + time * product) / across).clamp(_EPSILON - 1, 1 - _EPSILON))
    aperture = torch.asin((2 * APERTURE / (curvature**0.5 * length)).clamp_max(1 - _EPSILON))
    return torch.relu(exterior - aperture).mean()


def _time(points: Tensor, curvature: float) -> Tensor:
    return (1 / curvature + points.square().sum(1)).sqrt()
