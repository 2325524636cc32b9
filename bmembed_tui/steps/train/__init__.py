"""Step Train."""
