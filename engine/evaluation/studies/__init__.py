"""Further measurements beside the comparison of systems: robustness, fusion, hubness, forgetting, sentence pairs."""
