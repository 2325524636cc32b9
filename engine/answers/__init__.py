"""Answers of the user's language model, from found passages, with checked sources and quotes."""
