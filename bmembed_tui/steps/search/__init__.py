"""Step Search."""
