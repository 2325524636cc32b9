"""Choosing an encoder: the models on this machine, and the languages that each knows."""
