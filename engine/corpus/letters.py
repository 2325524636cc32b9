"""The letters and digits of a text, taken at once: sign by sign it takes many times as long."""

from __future__ import annotations

import re

_NO_LETTER = re.compile(r"[\W_]+")
_LETTER = re.compile(r"[^\W_]")
_NO_LETTERS_OF_ASCII = bytes(code for code in range(128) if not chr(code).isalnum())


def letters_of(text: str) -> str:
    """The text without anything but letters and digits (`str.isalnum`)."""
    if text.isascii():
        return text.encode("ascii").translate(None, _NO_LETTERS_OF_ASCII).decode("ascii")
    return _NO_LETTER.sub("", text)


def has_letters(text: str) -> bool:
    """Whether there is a letter or a digit in a text."""
    return _LETTER.search(text) is not None
