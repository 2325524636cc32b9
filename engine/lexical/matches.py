"""The words in a text that a query matches, to mark them in snippets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from engine.lexical import characters
from engine.lexical.analysis import Analyzer
from engine.lexical.codes import find_joined
from engine.lexical.numbers import sequences
from engine.lexical.numbers.figures import (
    Figure,
    compound_pattern_for,
    find_parts,
    read_figure,
)
from engine.lexical.words.suspended import find_suspended
from engine.lexical.words_and_codes import (
    DAY,
    LINE_HYPHEN,
    LINE_WITHIN,
    PARTED,
    RUN,
    find_possessive,
    strip_possessive,
)

Span = tuple[int, int]
"""Offsets of the first character and behind the last one."""


def matched_spans(
    query: str,
    text: str,
    language: str = "none",
) -> list[Span]:
    """Return the character spans of the words in `text` that the query matches.

    They are ascending and do not overlap. A code that matches as a whole is one span, otherwise
    each of its matching parts is one. No index is needed.
    """
    return _match_finder(query, language).find(text)


@lru_cache(maxsize=8)
def _match_finder(query: str, language: str) -> _MatchFinder:
    """Return the finder of a query, whose terms all hits of a search share."""
    return _MatchFinder(_shared_analyzer(language), query)


@lru_cache(maxsize=8)
def _shared_analyzer(language: str) -> Analyzer:
    """Return the analyzer of a language, which is kept with its cache."""
    return Analyzer(language)


class _MatchFinder:
    """Finds the words that match a query, as `analyzer` analyses both."""

    def __init__(self, analyzer: Analyzer, query: str) -> None:
        self._analyzer = analyzer
        query_terms = analyzer.query_terms(query)
        codes = query_terms.codes.keys() | query_terms.sequences
        other_spellings = set(map(sequences.find_other_spelling, codes))
        terms = query_terms.words.keys() | codes | other_spellings
        terms |= find_joined(query_terms.single)
        if not query.isascii():
            for word in analyzer.unstemmed(query).words:
                if analyzer.term_of(word):
                    terms.add(analyzer.term_of(characters.spell_out(word)))
        terms.discard("")
        self._terms = terms
        self._sequences = set(filter(sequences.is_sequence, terms))

    def find(self, text: str) -> list[Span]:
        """Return the spans of the words in a text that match."""
        if not self._terms:
            return []
        spans = [*self._find_times_and_signs(text), *self._find_suspended(text)]
        spans += self._find_letters(text)
        previous = ""
        previous_start = 0
        separated = characters.replace_signs(text)
        for match in compound_pattern_for(text, any_case=True).finditer(separated):
            compound = match.group()
            lower = compound.lower()
            start = match.start()
            if self._sequences and self._matches(sequences.find_sequences(previous, lower)):
                spans.append((previous_start, match.end()))
            if compound.isupper() and self._matches(find_joined([lower])):
                spans.append(match.span())
            if not sequences.is_particle(lower):
                previous = lower
                previous_start = start
            spans += _shift(self._find_in_compound(compound), start)
        return _merge(spans)

    def _matches(self, terms: Iterable[str]) -> bool:
        """Return whether the query contains any of these terms."""
        return not self._terms.isdisjoint(terms)

    def _find_suspended(self, text: str) -> Iterator[Span]:
        """Yield the matching spans of compounds that share a part: `Kranken- und Unfallkasse`."""
        lower = text.lower()
        if len(lower) == len(text):
            for suspended in find_suspended(lower):
                if self._matches(find_joined(map(self._analyzer.term_of, suspended.words))):
                    yield suspended.span

    def _find_letters(self, text: str) -> Iterator[Span]:
        """Yield the matching spans of words and the letter behind them: `vitamin A`."""
        for word, occurrence in sequences.find_capitals(text):
            if self._matches(occurrence.codes) and self._analyzer.is_in_sequences(word):
                yield occurrence.span

    def _find_times_and_signs(self, text: str) -> Iterator[Span]:
        """Yield the matching spans of times of day, and of what signs mark, such as 50 %."""
        lower = characters.lower(text)
        has_times = self._sequences or any(map(DAY.fullmatch, self._terms))
        if not has_times or len(lower) != len(text):
            return
        compounds = compound_pattern_for(lower).findall(lower)
        places = sequences.find_places(compounds)
        for time in sequences.find_times(lower, compounds, places):
            if self._matches(time.codes):
                yield time.span
        for occurrence in sequences.find_by_signs(lower):
            if self._matches(occurrence.codes):
                yield occurrence.span

    def _find_in_compound(self, raw: str) -> list[Span]:
        """Return the matching spans within one compound, ascending by start."""
        compound = characters.lower(raw)
        terms = self._analyzer.analyse_compound(compound)
        matches_code = self._matches(terms.codes) or self._matches_day(terms.codes)
        matches_word = self._matches(terms.words) or self._matches_spelt_out(compound)
        if not matches_code and not matches_word:
            return self._find_in_humps(raw)
        if LINE_WITHIN.search(raw):
            return self._find_over_lines(raw)
        clean = characters.normalise(raw)
        figure = read_figure(strip_possessive(raw))
        # Search the raw text, since the plain form of a single character may contain a comma.
        if figure is None and PARTED.search(raw) and not LINE_HYPHEN.search(raw):
            return self._find_in_parts(raw)
        whole = [(0, len(raw) - len(find_possessive(raw)))]
        # If the plain form has another length, its offsets are not those of the text.
        has_same_offsets = len(clean) == len(raw)
        if matches_code or self._matches_figure(figure) or not has_same_offsets:
            return whole
        return self._find_in_words(clean) or whole

    def _matches_day(self, codes: Iterable[str]) -> bool:
        """Return whether the query has the month of a day in `codes`, or a day without its year."""
        if not self._sequences:
            return False
        days = filter(DAY.fullmatch, codes)
        return any(map(self._matches, map(sequences.find_in_day, days)))

    def _matches_spelt_out(self, compound: str) -> bool:
        """Return whether a compound with ä, ö, ü, å or ø matches when these are spelt out."""
        if compound.isascii():
            return False
        spelt_out = characters.spell_out(characters.normalise(compound))
        if spelt_out == compound or not self._analyzer.analyse_compound(compound).words:
            return False
        terms = self._analyzer.analyse_compound(spelt_out)
        return self._matches(terms.words) or self._matches(terms.codes)

    def _matches_figure(self, figure: Figure | None) -> bool:
        """Return whether a word that stands for a figure matches: `dotnet` for `.net`."""
        if figure is None:
            return False
        return self._matches(map(self._analyzer.term_of, figure.words))

    def _matches_word(self, word: str) -> bool:
        """Return whether a word matches, as it is or spelt out; a stop word never does."""
        term = self._analyzer.term_of(word)
        if not term:
            return False
        return self._matches((term, self._analyzer.term_of(characters.spell_out(word))))

    def _find_in_humps(self, word: str) -> list[Span]:
        """Return the matching parts of a word such as getUserName or PDFs; none of other words."""
        spans: list[Span] = []
        for plural in characters.find_acronym_plurals(word):
            if self._matches_word(plural[1].lower()):
                spans.append(plural.span())
        if characters.has_humps(word):
            start = 0
            for part in characters.split_humps(word):
                end = start + len(part)
                if self._matches_word(part.lower()):
                    spans.append((start, end))
                start = end
        return spans

    def _find_in_parts(self, raw: str) -> list[Span]:
        """Return the matching spans within a compound that only looked like a figure."""
        spans: list[Span] = []
        for start, part in find_parts(raw, any_case=True):
            spans += _shift(self._find_in_compound(part), start)
        return spans

    def _find_over_lines(self, raw: str) -> list[Span]:
        """Return the spans within a compound that extends over several lines.

        A pair that a line end splits extends from its first character to its last.
        """
        spans: list[Span] = []
        line_start = 0
        for line_end in LINE_WITHIN.finditer(raw):
            end, following = line_end.span()
            spans += _shift(self._find_in_compound(raw[line_start:end]), line_start)
            pair = raw[end - 1] + raw[following]
            if characters.normalise(pair) in self._terms:
                spans.append((end - 1, following + 1))
            line_start = following
        return spans + _shift(self._find_in_compound(raw[line_start:]), line_start)

    def _find_in_words(self, clean: str) -> list[Span]:
        """Return the spans of the matching words in a compound, given in its plain form."""
        spans: list[Span] = []
        for word in characters.term_pattern().finditer(clean):
            for piece in characters.PIECE.finditer(word.group()):
                start = word.start() + piece.start()
                if characters.IS_UNSPACED.match(piece.group()):
                    spans += _shift(self._find_in_unspaced(piece.group()), start)
                else:
                    spans += _shift(self._find_in_word(piece.group()), start)
        return spans

    def _find_in_word(self, word: str) -> list[Span]:
        """Return the span of a word if it matches, else of its matching letter and digit runs."""
        if self._matches_word(word):
            return [(0, len(word))]
        spans: list[Span] = []
        for run in RUN.finditer(word):
            if self._analyzer.term_of(run.group()) in self._terms:
                spans.append(run.span())
        return spans

    def _find_in_unspaced(self, piece: str) -> list[Span]:
        """Return the spans of matching pairs of characters, and of matching single characters."""
        spans: list[Span] = []
        for start, character in enumerate(piece):
            pair = piece[start : start + 2]
            if pair in self._terms:
                spans.append((start, start + len(pair)))
            elif character in self._terms:
                spans.append((start, start + 1))
        return spans


def _shift(spans: Iterable[Span], offset: int) -> list[Span]:
    """Return spans within a part of a text as spans in the text; the part begins at `offset`."""
    return [(start + offset, end + offset) for start, end in spans]


def _merge(spans: Iterable[Span]) -> list[Span]:
    """Return spans in ascending order; those that overlap or touch become one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged.pop()
            start = last_start
            end = max(end, last_end)
        merged.append((start, end))
    return merged
