"""Step Result."""
