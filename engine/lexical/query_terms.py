"""The terms of a query: how often each word occurs, and the parts of each code (`PHX-121`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.lexical import characters
from engine.lexical.codes import JOINT, is_joined, is_number, strip_language
from engine.lexical.numbers import sequences
from engine.lexical.numbers.figures import Figure, read_figure
from engine.lexical.words_and_codes import DAY, PARTED, split_into_compounds, strip_possessive

_MAX_SHORT_QUERY = 10
"""Maximum words of a query in which a day written in words (`17 May 2031`) has its full weight.

A longer query mentions days in passing.
"""
# A tax number such as de-123456789, which may be written without its country elsewhere.
_NUMBER_OF_COUNTRY = re.compile(r"[a-z]{1,3}-(\d{7,})")

AnalyseCompound = Callable[[str], tuple[Sequence[str], Sequence[str]]]
"""Returns the words and the codes of a lower-case compound."""


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The terms of a query."""

    words: dict[str, float]
    """Word → number of occurrences."""
    codes: dict[str, tuple[str, ...]]
    """Whole code → its parts, whose idf are its bonus: `phx-121` → `phx`, `121`."""
    digits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Code of a number → its words if written as digits alone: `12750.0` → `12750`."""
    single: set[str] = field(default_factory=set)
    """Words that are typed by themselves, not joined with others, and stop words in capitals."""
    sequences: set[str] = field(default_factory=set)
    """Codes of words and numbers that follow each other: `=windows-10`."""

    def find_readings(self) -> list[list[str]]:
        """Return for each code, then for each long number, its terms in all spellings."""
        codes: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        numbers: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        # All spellings of a code have the same parts.
        for code, parts in self.codes.items():
            digits = self.digits.get(code, ())
            is_typed_as_digits = len(parts) == 1 and bool(digits)
            if not is_typed_as_digits:
                codes[parts] += (code, *digits)
            elif any(is_number(strip_language(term)) for term in digits):
                numbers[parts] += (code, *digits)
        return [*codes.values(), *numbers.values()]


class QueryTermsCounter:
    """Counts the words of one query and collects its codes.

    `analyse` returns the words and codes of a compound. Words of the query's language begin with
    `prefix`.
    """

    def __init__(self, analyse: AnalyseCompound, prefix: str) -> None:
        self._analyse = analyse
        self._prefix = prefix
        self._terms = QueryTerms({}, {})
        # Code of a day written in words (`17 May 2031`) → its first number.
        self._days_in_words: dict[str, tuple[str, ...]] = {}

    def count(self, text: str) -> QueryTerms:
        """Return the terms of a query."""
        terms = self._terms
        lower = characters.lower(text)
        compounds = list(split_into_compounds(lower))
        terms.sequences.update(_find_sequences(lower, compounds))
        for compound in compounds:
            self._add_compound(compound)
        if len(terms.words) > _MAX_SHORT_QUERY:
            # A code weighs as much as its parts: leave each day only its first number.
            terms.codes.update(self._days_in_words)
        if not text.isascii():
            self._drop_covered_characters()
        return terms

    def _add_compound(self, compound: str) -> None:
        """Add a compound: a number such as `12 750`, another figure such as a day, or words."""
        words, all_codes = self._analyse(compound)
        codes: list[str] = []
        for code in all_codes:
            if is_joined(code):
                self._count_words([code.removeprefix(JOINT)])
            else:
                codes.append(code)
        figure = read_figure(strip_possessive(compound))
        if figure is not None and figure.digits:
            self._add_number(figure, words)
            return
        if len(words) == 1 and not all_codes:
            self._terms.single.update(words)
        if figure is None:
            # The first code is the whole one; those within it, such as days, are left out.
            self._add_words_and_codes(
                compound,
                words,
                codes[:1],
            )
            return
        self._add_words_and_codes(compound, words, codes)
        if PARTED.search(compound) and all(map(DAY.fullmatch, codes)):
            numbers = [word for word in words if word.isdigit()]
            self._days_in_words.update(dict.fromkeys(codes, tuple(numbers[:1])))

    def _add_words_and_codes(
        self, compound: str, words: Sequence[str], codes: Sequence[str]
    ) -> None:
        """Add the words and codes of a compound; the words are the parts of its codes.

        A tax number such as `de-123456789` is also searched for without its country.
        """
        parts = _weigh_parts(codes, words)
        if codes and not PARTED.search(compound):
            # Words of a single character are left out if there are longer ones: the B of `QX-77/B`.
            long_words = [word for word in words if len(word.removeprefix(self._prefix)) > 1]
            words = long_words or words
        self._count_words(words)
        for code in codes:
            self._terms.codes[code] = parts or tuple(words)
            if number := _NUMBER_OF_COUNTRY.fullmatch(code):
                self._terms.codes[f"{number[1]}.0"] = tuple(words)

    def _add_number(self, figure: Figure, words: Sequence[str]) -> None:
        """Add a number such as `12 750`: its parts, its codes, and its digits as one word.

        That word, `12750`, counts as much as all parts together.
        """
        digits = tuple(self._prefix + number for number in figure.digits)
        self._count_words(words)
        for number in digits:
            self._terms.words.setdefault(number, float(len(words)))
        for code in figure.codes:
            self._terms.codes[code] = tuple(words)
            self._terms.digits[code] = digits

    def _count_words(self, words: Iterable[str]) -> None:
        """Count one more occurrence of each word."""
        counts = self._terms.words
        for word in words:
            counts[word] = counts.get(word, 0.0) + 1.0

    def _drop_covered_characters(self) -> None:
        """Remove single Han characters that are part of a pair."""
        words = self._terms.words
        for pair in list(words):
            if len(pair) == 2 and characters.IS_HAN.search(pair):
                for character in pair:
                    words.pop(character, None)


def _find_sequences(text: str, compounds: Sequence[str]) -> Iterator[str]:
    """Yield the codes of the sequences in a lower-case query.

    Of `python 3.11` only `=python-3.11`, not `=python-3`.
    """
    previous = ""
    for compound in compounds:
        yield from sequences.find_sequences(previous, compound)[-1:]
        yield from sequences.find_letter(previous, compound)
        yield from sequences.find_within(compound)
        if not sequences.is_particle(compound):
            previous = compound
    places = sequences.find_places(compounds)
    for time in sequences.find_times(text, compounds, places):
        yield from time.codes
    for occurrence in sequences.find_by_signs(text):
        yield occurrence.codes[0]


def _weigh_parts(codes: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a code with an unusual weight; empty for others.

    The parts of a day include its single digits. A section of a law, or `R&D`, has each of its
    words twice, and thus twice their weight.
    """
    if codes and all(map(DAY.fullmatch, codes)):
        return tuple(words)
    if any(code.startswith("§") or "&" in code for code in codes):
        return (*words, *words)
    return ()
