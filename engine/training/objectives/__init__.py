"""Losses and the teachers that they learn from."""
