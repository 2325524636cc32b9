"""Superscripts as characters.

`warranty` with a raised 1 is `warranty¹`, 10 with a raised 6 is `10⁶`, not warranty1 and 106.
"""

from __future__ import annotations

import re

_PLAIN = "0123456789+-\u2010\u2011\u2212=()"
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁻⁼⁽⁾"
_SIGNS = str.maketrans(_PLAIN, _RAISED)
_LETTERS = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
_TRADE_MARKS = {"tm": "™", "sm": "℠"}
_MARK = re.compile(rf"[\d\s,.;:*\u2020\u2021\u00a7\u00b6#/{re.escape(_PLAIN)}]*", re.ASCII)
_LETTER_MARK = re.compile(r"\(?[a-pr-z](?:[,; ]{1,2}[a-pr-z])*\)?")
_WORD_BEFORE = re.compile(r"[^\W\d_]{4,}$")
_ROMAN = re.compile(r"[IVXLCDM]{4,}$")


def write_superscript(raised: str, before: str) -> str:
    """Return how a raised text is written after the text `before` it.

    Digits become superscripts. So does a single letter after a word, which is the mark of a note.
    Other letters belong to what they follow, as in 1st and Mme, and stay as they are, unless they
    would hide a word.
    """
    text = raised.strip()
    if not text or not text[0].isascii() or before.endswith("["):
        return raised
    if _MARK.fullmatch(text):
        return raised.translate(_SIGNS)
    if text.casefold() in _TRADE_MARKS:
        return raised.replace(text, _TRADE_MARKS[text.casefold()])
    if not _WORD_BEFORE.search(before) or _ROMAN.search(before):
        return raised
    if _LETTER_MARK.fullmatch(text):
        return raised.translate(_LETTERS).translate(_SIGNS)
    return f" {raised}" if text[0].isalnum() else raised
