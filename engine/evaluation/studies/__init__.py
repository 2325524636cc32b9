"""Further measurements beside the comparison of systems: robustness, fusion, forgetting,
sentence pairs.
"""
