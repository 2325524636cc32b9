"""The gate: whether a candidate encoder replaces the reference in one search mode."""
