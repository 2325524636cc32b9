"""Rankings × judgments → figures, and vectors → diagnostics.

In: graded relevance of ranked items per query (`Relevance`). Out: per-query float64 arrays in [0, 1], their means with
bootstrap intervals, and paired differences between systems. Besides, of unit vectors and their similarities: alignment,
uniformity, isotropy, overlap, and a threshold. Definitions: METHODS.md §1 Metrics and Geometry, §2 and §3.
"""

from engine.metrics.accuracy import bootstrapped_accuracy
from engine.metrics.alignment import alignment
from engine.metrics.average_precision import average_precision_at_k
from engine.metrics.bootstrap import Interval, bootstrap_means, mean_interval
from engine.metrics.density import kernel_density, kernel_width
from engine.metrics.differences import Difference, Verdict, paired_difference
from engine.metrics.hit import hit_at_k
from engine.metrics.isotropy import isoscore, isotropy_a
from engine.metrics.mrr import reciprocal_rank
from engine.metrics.multihop import first_found, multihop_ap_at_k
from engine.metrics.ndcg import Gain, ndcg_at_k
from engine.metrics.overlap import Overlap, overlap
from engine.metrics.power import queries_needed, with_needed, with_needed_pairs
from engine.metrics.randomisation import best_of_p, randomisation_p
from engine.metrics.recall import recall_at_k
from engine.metrics.relevance import Relevance
from engine.metrics.run import NAMES, evaluate_run
from engine.metrics.separation import nearest_distances
from engine.metrics.spearman import spearman, spearman_difference, spearman_interval
from engine.metrics.threshold import Threshold, choose_threshold, thresholds
from engine.metrics.transformations import Transformation, remove_top, standardise, whiten
from engine.metrics.uniformity import uniformity

__all__ = [
    "NAMES",
    "Difference",
    "Gain",
    "Interval",
    "Overlap",
    "Relevance",
    "Threshold",
    "Transformation",
    "Verdict",
    "alignment",
    "average_precision_at_k",
    "best_of_p",
    "bootstrap_means",
    "bootstrapped_accuracy",
    "choose_threshold",
    "evaluate_run",
    "first_found",
    "hit_at_k",
    "isoscore",
    "isotropy_a",
    "kernel_density",
    "kernel_width",
    "mean_interval",
    "multihop_ap_at_k",
    "ndcg_at_k",
    "nearest_distances",
    "overlap",
    "paired_difference",
    "queries_needed",
    "randomisation_p",
    "recall_at_k",
    "reciprocal_rank",
    "remove_top",
    "spearman",
    "spearman_difference",
    "spearman_interval",
    "standardise",
    "thresholds",
    "uniformity",
    "whiten",
    "with_needed",
    "with_needed_pairs",
]
