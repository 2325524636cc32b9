"""Rankings × judgments → figures.

In: graded relevance of ranked items per query (`Relevance`). Out: per-query float64 arrays in [0, 1], their means with
bootstrap intervals, and paired differences between systems. Definitions: METHODS.md §1 Metrics, §2 and §3.
"""

from engine.metrics.average_precision import average_precision_at_k
from engine.metrics.bootstrap import (
    Difference,
    Interval,
    Verdict,
    bootstrap_means,
    mean_interval,
    paired_difference,
)
from engine.metrics.hit import hit_at_k
from engine.metrics.mrr import reciprocal_rank
from engine.metrics.multihop import first_found, multihop_ap_at_k
from engine.metrics.ndcg import Gain, ndcg_at_k
from engine.metrics.recall import recall_at_k
from engine.metrics.relevance import Relevance
from engine.metrics.run import NAMES, evaluate_run

__all__ = [
    "NAMES",
    "Difference",
    "Gain",
    "Interval",
    "Relevance",
    "Verdict",
    "average_precision_at_k",
    "bootstrap_means",
    "evaluate_run",
    "first_found",
    "hit_at_k",
    "mean_interval",
    "multihop_ap_at_k",
    "ndcg_at_k",
    "paired_difference",
    "recall_at_k",
    "reciprocal_rank",
]
