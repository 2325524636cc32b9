"""Closed word classes are written as text, one space between two words."""


def word_set(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())
