"""Superscripts as characters.

`warranty` with a raised 1 is `warranty¹`, 10 with a raised 6 is `10⁶`, not warranty1 and 106.
"""

from __future__ import annotations

import re

_DIGITS_AND_SIGNS = "0123456789+-\u2010\u2011\u2212=()"
_TO_RAISED_DIGITS = str.maketrans(_DIGITS_AND_SIGNS, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁻⁼⁽⁾")
# No character is a raised q.
_TO_RAISED_LETTERS = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
_TRADE_MARKS = {"tm": "™", "sm": "℠"}
# `1`, `2, 3`, `*`, `(4)` or `-6`.
_NUMBER_MARK = re.compile(rf"[\d\s,.;:*†‡§¶#/{re.escape(_DIGITS_AND_SIGNS)}]*", re.ASCII)
# `a`, `b, c` or `(d)`.
_LETTER_MARK = re.compile(r"\(?[a-pr-z](?:[,; ]{1,2}[a-pr-z])*\)?")
_WORD_END = re.compile(r"[^\W\d_]{4,}$")
_ROMAN_NUMBER_END = re.compile(r"[IVXLCDM]{4,}$")


def write_superscript(raised: str, before: str) -> str:
    """Return how a raised text is written after the text `before` it.

    Digits become superscripts. So does a single letter after a word, which is the mark of a note.
    Other letters belong to what they follow, as in 1st and Mme, and stay as they are; after a whole
    word, a blank separates them from it.
    """
    text = raised.strip()
    if not text or not text[0].isascii() or before.endswith("["):
        return raised
    if _NUMBER_MARK.fullmatch(text):
        return raised.translate(_TO_RAISED_DIGITS)
    if text.casefold() in _TRADE_MARKS:
        return raised.replace(text, _TRADE_MARKS[text.casefold()])
    if not _WORD_END.search(before) or _ROMAN_NUMBER_END.search(before):
        return raised
    if _LETTER_MARK.fullmatch(text):
        # Its brackets are raised, too.
        return raised.translate(_TO_RAISED_LETTERS).translate(_TO_RAISED_DIGITS)
    if text[0].isalnum():
        return f" {raised}"
    return raised
