"""Whether a query holds anything that can be looked for."""

from __future__ import annotations

from unicodedata import category


def holds_word(query: str) -> bool:
    """Whether there is a letter or a digit of any script."""
    return any(category(char)[0] in "LN" for char in query)


def symbols(query: str) -> str:
    """The signs that stand for a thing, such as ☂, € or an emoji: no word, but an encoder may know them.

    Those of ASCII, such as + and <, are taken for punctuation.
    """
    return "".join(char for char in query if not char.isascii() and category(char)[0] == "S")
