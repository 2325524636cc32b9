"""Step Documents."""
