"""Step Index."""
