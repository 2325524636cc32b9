"""Whole codes of queries: in what spellings each is indexed, and whether a text holds one inside
a longer one.
"""

from __future__ import annotations

from engine.lexical.analysis import Analyzer, QueryTerms

_MIN_NUMBER = 5  # digits


def is_number(word: str) -> bool:
    """Whether a word stands for itself as a code does."""
    return word.isdigit() and len(word) >= _MIN_NUMBER


def plain_stem(term: str) -> str:
    """A term without its language."""
    return term.rpartition(":")[2]


def readings_of(query: QueryTerms) -> list[list[str]]:
    """For each code of a query, and each long number, the terms that it is indexed by, in other
    spellings, too.
    """
    codes: dict[tuple[str, ...], list[str]] = {}
    numbers: dict[tuple[str, ...], list[str]] = {}
    for code, parts in query.codes.items():
        digits = query.digits.get(code, ())
        is_plain = len(parts) == 1 and bool(digits)  # a number that is typed as digits alone
        if not is_plain or any(is_number(plain_stem(word)) for word in digits):
            kind = numbers if is_plain else codes
            kind.setdefault(parts, []).extend((code, *digits))
    return [*codes.values(), *numbers.values()]


def holds_inside(analyzer: Analyzer, code: str, text: str) -> bool:
    """Whether a text holds a code as a part of a longer one: `PHX-121` in `PHX-121/B`."""
    wanted = [f"-{_with_hyphens(one)}-" for one in analyzer.unstemmed(code).codes]
    longer = [f"-{_with_hyphens(one)}-" for one in analyzer.terms(text).codes]
    return any(one in other for one in wanted for other in longer)


def _with_hyphens(code: str) -> str:
    return code.replace(".", "-").replace("/", "-")
