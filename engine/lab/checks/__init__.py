"""Measurements of encoders and queries that decide nothing: `engine lab`."""
