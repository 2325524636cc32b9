"""Answers by the user's own language model from passages found, with checked sources and quotes."""
