"""Measurements apart from the comparison: robustness, fusion, forgetting, sentence pairs."""
