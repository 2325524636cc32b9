"""The letters and digits of a text, taken at once: sign by sign it takes many times as long."""

from __future__ import annotations

import re

_LETTERS = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"[^\W_]")
_NO_LETTERS_OF_ASCII = bytes(code for code in range(128) if not chr(code).isalnum())


def letters_of(text: str) -> str:
    """The text without anything but letters and digits (`str.isalnum`)."""
    shorter = (
        text.encode("utf-8", "surrogatepass").translate(None, _NO_LETTERS_OF_ASCII).decode("utf-8", "surrogatepass")
    )
    return shorter if shorter.isascii() else "".join(_LETTERS.findall(shorter))


def has_letters(text: str) -> bool:
    """Whether there is a letter or a digit in a text."""
    return _LETTER.search(text) is not None
