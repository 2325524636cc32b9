"""Whole codes of queries: their indexed spellings, and occurrences inside longer codes."""

from __future__ import annotations

from engine.lexical.analysis import Analyzer, QueryTerms

# Minimum digits of a number that counts as a code.
_MIN_NUMBER = 5


def is_number(word: str) -> bool:
    """Tell whether a word is a number that is long enough to count as a code."""
    return word.isdigit() and len(word) >= _MIN_NUMBER


def strip_language(term: str) -> str:
    """Return a term without its language."""
    return term.rpartition(":")[2]


def find_readings(query: QueryTerms) -> list[list[str]]:
    """Return the indexed terms, in all spellings, of each code and long number of a query."""
    codes: dict[tuple[str, ...], list[str]] = {}
    numbers: dict[tuple[str, ...], list[str]] = {}
    for code, parts in query.codes.items():
        digits = query.digits.get(code, ())
        # True for a number that is typed as digits alone.
        is_plain = len(parts) == 1 and bool(digits)
        if not is_plain or any(is_number(strip_language(word)) for word in digits):
            kind = numbers if is_plain else codes
            kind.setdefault(parts, []).extend((code, *digits))
    return [*codes.values(), *numbers.values()]


def has_longer_code(analyzer: Analyzer, code: str, text: str) -> bool:
    """Tell whether a text contains a code as part of a longer one: `PHX-121` in `PHX-121/B`."""
    wanted = [f"-{_with_hyphens(one)}-" for one in analyzer.unstemmed(code).codes]
    longer = [f"-{_with_hyphens(one)}-" for one in analyzer.terms(text).codes]
    return any(one in other for one in wanted for other in longer)


def _with_hyphens(code: str) -> str:
    return code.replace(".", "-").replace("/", "-")
