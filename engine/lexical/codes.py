"""Whole codes of queries: their indexed spellings, and occurrences inside longer codes."""

from __future__ import annotations

import re
from collections import defaultdict

from engine.lexical.analysis import Analyzer, QueryTerms

# Minimum digits of a number that counts as a code.
_MIN_NUMBER = 5


def is_number(word: str) -> bool:
    """Tell whether a word is a number that is long enough to count as a code."""
    return word.isdigit() and len(word) >= _MIN_NUMBER


def strip_language(term: str) -> str:
    """Return a term without its language."""
    return term.rpartition(":")[2]


def is_in_another_language(term: str) -> bool:
    """Tell whether a term is one of a language that is not the main one."""
    return ":" in term


def find_readings(query: QueryTerms) -> list[list[str]]:
    """Return the indexed terms, in all spellings, of each code and long number of a query."""
    codes: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    numbers: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for code, parts in query.codes.items():
        digits = query.digits.get(code, ())
        is_typed_as_digits = len(parts) == 1 and bool(digits)
        if not is_typed_as_digits:
            codes[parts] += (code, *digits)
        elif any(map(is_number, map(strip_language, digits))):
            numbers[parts] += (code, *digits)
    return [*codes.values(), *numbers.values()]


def has_longer_code(analyzer: Analyzer, code: str, text: str) -> bool:
    """Tell whether a text contains a code as part of a longer one: `PHX-121` in `PHX-121/B`."""
    # What reads as a day by itself, such as `20310412`, has other parts in `IMG_20310412_Scan`.
    if re.search(rf"(?<![^\W_]){re.escape(code)}(?![^\W_])", text, re.IGNORECASE):
        return True
    # A code may not contain spaces, so it never matches across two codes of the text.
    text_codes = " ".join(map(delimit_parts, analyzer.terms(text).codes))
    codes = map(delimit_parts, analyzer.unstemmed(code).codes)
    return any(whole in text_codes for whole in codes)


def delimit_parts(code: str) -> str:
    """Return a code with "-" around each of its parts."""
    hyphenated = code.replace(".", "-").replace("/", "-")
    return f"-{hyphenated}-"
