"""Figures of judged rankings, and diagnostics of vectors.

From graded relevance of ranked items (`Relevance`) come per-query float64 arrays in [0, 1], their
means with bootstrap intervals, and paired differences between systems; from unit vectors and their
similarities alignment, uniformity, isotropy, overlap and a threshold. Definitions: METHODS.md §1
Metrics and Geometry, §2 and §3.
"""
