"""Step Queries."""
