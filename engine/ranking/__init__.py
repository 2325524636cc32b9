"""BM25 lists to learn from, and the fusion of rankings.

From BM25's best k chunks of each query (`RankedLists`) come `SampledLists` for training, and fused
rankings for evaluation and search. Source: METHODS.md §1 (BMEmbed: partition, sampling, RRF) and §5
(score fusion).
"""
