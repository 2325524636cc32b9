"""Queries × BM25 → lists to learn from, and the fusion of rankings.

In: BM25's best k chunks of each query (`RankedLists`). Out: `SampledLists` for training, fused rankings for evaluation
and search. Source: METHODS.md §1 (BMEmbed: partition, sampling, RRF) and §5 (score fusion).
"""

from engine.ranking.fusion import RRF_CONSTANT, completed, convex, convex_parts, rrf, rrf_parts
from engine.ranking.partition import Scheme, partition_ranks
from engine.ranking.rankings_file import RankedLists
from engine.ranking.sampling import SampledLists, sample_lists

__all__ = [
    "RRF_CONSTANT",
    "RankedLists",
    "SampledLists",
    "Scheme",
    "completed",
    "convex",
    "convex_parts",
    "partition_ranks",
    "rrf",
    "rrf_parts",
    "sample_lists",
]
