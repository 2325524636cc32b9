"""Answers to questions from passages found, by the user's own language model; every source and
quote is checked.
"""
