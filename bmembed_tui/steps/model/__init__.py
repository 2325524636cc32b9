"""Step Model."""
