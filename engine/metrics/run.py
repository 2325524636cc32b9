"""All of a ranking's figures by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from engine.metrics.average_precision import average_precision_at_k
from engine.metrics.hit import hit_at_k
from engine.metrics.mrr import reciprocal_rank
from engine.metrics.ndcg import ndcg_at_k
from engine.metrics.recall import recall_at_k
from engine.metrics.relevance import Floats, Relevance

METRICS: dict[str, Callable[[Relevance, int], Floats]] = {
    "hit": hit_at_k,
    "mrr": reciprocal_rank,
    "ndcg": ndcg_at_k,
    "ndcg_exp": partial(ndcg_at_k, gain="exponential"),
    "recall": recall_at_k,
    "map": average_precision_at_k,
}
NAMES = ("hit@1", "hit@4", "hit@10", "mrr@10", "ndcg@10", "recall@10", "map@10")


def evaluate_run(relevance: Relevance, names: Iterable[str] = NAMES) -> dict[str, Floats]:
    """Metric name (`metric@k`) → (q,) per-query values in [0, 1]. ValueError for a name that is not known.

    A query without any relevant item scores 0 everywhere: leave such queries out beforehand.
    """
    return {name: _measure(relevance, name) for name in names}


def _measure(relevance: Relevance, name: str) -> Floats:
    metric, _, cut = name.partition("@")
    if metric not in METRICS or not cut.isdigit():
        raise ValueError(f"unknown metric {name!r}; known: {', '.join(METRICS)}, each as name@k")
    return METRICS[metric](relevance, int(cut))
