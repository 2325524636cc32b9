"""Kinds of terms: words (`contract`), whole codes (`phx-121`), and codes made of words (`-email`).

A word in another language than the corpus' main one has the language before it: `de:vertrag`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.lexical.characters import JOINERS
from engine.lexical.numbers.sequences import is_sequence

JOINT = "-"
"""First character of the code of joined words: `e-mail` has the code `-email`.

No other code begins with it.
"""
_JOINER = re.compile(f"[{JOINERS}]")
# Minimum digits of a number that counts as a code.
_MIN_NUMBER = 5


def is_code(term: str) -> bool:
    """Return whether a term stands for a whole code rather than for a word."""
    return _JOINER.search(term) is not None


def is_joined(code: str) -> bool:
    """Return whether a code stands for words that may be written as one, such as `e-mail`."""
    return code.startswith(JOINT)


def is_whole(code: str) -> bool:
    """Return whether a code is one that somebody typed, such as PHX-121, not made of words."""
    return not is_joined(code) and not is_sequence(code)


def add_joint(term: str) -> str:
    """Return the code of joined words, given as one word: `-email` for `email`."""
    return JOINT + term


def find_joined(terms: Iterable[str]) -> set[str]:
    """Return the code of each word in texts that write it joined: `-email` for `email`."""
    return set(map(add_joint, terms))


def is_number(word: str) -> bool:
    """Return whether a word is a number that is long enough to count as a code."""
    return word.isdigit() and len(word) >= _MIN_NUMBER


def strip_language(term: str) -> str:
    """Return a term without its language: `vertrag` for `de:vertrag`."""
    return term.rpartition(":")[2]


def is_in_another_language(term: str) -> bool:
    """Return whether a term belongs to another language than the corpus' main one."""
    return ":" in term
