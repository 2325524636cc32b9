"""Queries written by a language model, in a GGUF file or behind an endpoint."""
