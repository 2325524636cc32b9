"""Rankings × judgments → figures, and vectors → diagnostics.

In: graded relevance of ranked items per query (`Relevance`). Out: per-query float64 arrays in [0,
    1], their means with
bootstrap intervals, and paired differences between systems. Besides, of unit vectors and their
similarities: alignment, uniformity, isotropy, overlap, and a threshold. Definitions: METHODS.md §1
Metrics and Geometry, §2 and §3.
"""
