"""Step Evaluate."""
