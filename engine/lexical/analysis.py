"""From text to BM25 terms, the same way for chunks and queries.

Amounts, numbers and days have one code in all spellings (figures.py).
"""

# Words are lower-cased, folded to plain Latin letters, filtered for stop words and stemmed. Folding
# comes before stemming, so that "Häuser" and "hauser" become one term: it matters more that both
# sides of a search agree than that a stem is right.
#
# Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese runs give overlapping pairs of characters;
# single Han characters are terms too, so that a one-character query finds them. A single line end
# between Chinese or Japanese characters does not split a pair, since lines of such text end within
# words.

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

from engine.lexical import characters, sequences
from engine.lexical.figures import Figure, compound_pattern_for, find_parts, read_figure
from engine.lexical.languages import STEMMERS, STOP_WORDS
from engine.lexical.word_forms import unify_forms
from engine.lexical.words_and_codes import (
    DAY,
    LINE_HYPHEN,
    LINE_WITHIN,
    MAX_WORD_LENGTH,
    PARTED,
    RUN,
    find_possessive,
    find_words_and_codes,
    join_words,
    strip_possessive,
)

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

_CACHE_SIZE = 1_000_000

_MARK = re.compile(f"[{characters.JOINERS}]")
MAX_LOOKED_UP = 10
"""Maximum words of a query in which days written in words, and sequences, are looked up.

In a longer query they are mentioned in passing, and weigh less.
"""
# The first character of the code of joined words: `e-mail` has the code `-email`. No other code
# begins with it.
JOINT = "-"
_HUMP = re.compile("[A-Za-z\u00df-\u00ff][A-Z\u00c0-\u00de][A-Za-z\u00df-\u00ff]")
_LETTERS = re.compile(r"[^\W\d_]+")
# A word with more parts than getUserName may have is data.
_MAX_HUMPS = 10
# A tax number such as de123456789, which may be written in groups elsewhere.
_NUMBER_OF_COUNTRY = re.compile(r"[a-z]{1,3}-(\d{7,})")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a text: its words in order, with repetitions, its codes and its sequences.

    `sequences` are codes of words and numbers that follow each other (sequences.py).
    """

    words: list[str]
    codes: list[str]
    sequences: list[str]


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The terms of a query.

    `words` counts the occurrences of each word. `codes` maps each whole code to the words of its
    parts. `digits` maps codes that are numbers to their words when written as digits alone.
    `single` are the words that are typed by themselves, not joined with others. `sequences` are the
    codes of words and numbers that follow each other.
    """

    words: dict[str, float]
    codes: dict[str, tuple[str, ...]]
    digits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    single: set[str] = field(default_factory=set)
    sequences: set[str] = field(default_factory=set)


def is_code(term: str) -> bool:
    """Tell whether a term stands for a whole code rather than for a word."""
    return _MARK.search(term) is not None


def is_joined(code: str) -> bool:
    """Tell whether a code stands for words that may be written as one, such as `e-mail`."""
    return code.startswith(JOINT)


def is_whole(code: str) -> bool:
    """Tell whether a code is one that somebody typed, such as PHX-121, not made of words."""
    return not is_joined(code) and not sequences.is_sequence(code)


def find_joined(terms: Iterable[str]) -> set[str]:
    """Return the codes of words for texts that write them as several: `-email` for `email`."""
    return set(map(_add_joint, terms))


def _add_joint(term: str) -> str:
    return JOINT + term


def _strip_joint(code: str) -> str:
    return code.removeprefix(JOINT)


class Analyzer:
    """Analyses text in one language, an ISO 639-1 code. Thread-safe.

    In a language without a stemmer, or with "none", words are only lower-cased and folded.
    `stop_words` tells whether stop words are dropped. `mark` precedes every term that is neither a
    code nor a pair of characters; it separates the words of one language from those of another.
    """

    def __init__(self, language: str, stop_words: bool = True, mark: str = "") -> None:
        self.language = language
        self._mark = mark
        self._stemmer = _build_filter("stemmer", STEMMERS.get(language))
        self._stop_words = None
        if stop_words:
            self._stop_words = _build_filter("stopword", STOP_WORDS.get(language))
        self._cache: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._lock = Lock()
        self.spellings: dict[str, set[str]] = {}
        """Spelt-out term → terms of words with ä, ö, ü, å or ø, if these differ."""

    def terms(self, text: str) -> Terms:
        """Return the words and codes of a text. Never raises, whatever the text."""
        terms = Terms([], [], [])
        cache = self._cache
        if _HUMP.search(text):
            terms.codes.extend(self._join_humps(text))
        text = _lower(text)
        compounds = compound_pattern_for(text).findall(text)
        for compound in compounds:
            words, codes = cache.get(compound) or self._remember(compound)
            terms.words.extend(words)
            terms.codes.extend(codes)
        places = sequences.find_places(compounds)
        for place in places:
            terms.sequences.extend(self._find_sequences(compounds, place))
        times = sequences.find_times(text, compounds, places)
        for _, found in chain(times, sequences.find_dates(text)):
            terms.sequences.extend(found)
        return terms

    def _join_humps(self, text: str) -> Iterator[str]:
        """Yield the codes of the parts of words such as getUserName."""
        for word in _LETTERS.findall(text):
            if word.islower() or word.istitle() or word.isupper():
                continue  # Most words.
            parts = characters.split_humps(word)
            if 1 < len(parts) <= _MAX_HUMPS:
                for part in parts:
                    yield from map(_add_joint, self._word_terms(part.lower()))

    def _find_sequences(self, compounds: Sequence[str], place: int) -> Iterator[str]:
        """Yield the codes of a compound with the one before it or after it, and its own.

        It is the one at a `place` that may be a number.
        """
        number = compounds[place]
        before, after = sequences.find_neighbours(compounds, place)
        if before and self._is_in_sequences(before):
            yield from sequences.find_sequences(before, number)
        if after and not sequences.may_be_number(after):
            yield from sequences.find_sequences(number, after)
        yield from _find_sequences_within(number)
        for code in self._analyse_compound(number)[1]:
            if DAY.fullmatch(code):
                yield from sequences.find_in_day(code)

    def _is_in_sequences(self, word: str) -> bool:
        """Tell whether a word counts with the number after it, which stop words do not."""
        if self._stop_words is None:
            return not _is_stop_word_somewhere(word)
        return bool(self._analyse_compound(word)[0])

    def analyse(self, text: str) -> list[str]:
        """Return the terms of a text: its words in order, then its codes, with repetitions."""
        terms = self.terms(text)
        return terms.words + terms.codes

    def query_terms(self, text: str) -> QueryTerms:
        """Return the terms of a query with their counts.

        Single characters count only if they stand alone: pairs already cover those inside a run of
        Han, and among the parts of a code longer ones say more (in `QX-77/B`, not B).
        """
        return self._count_terms(text, self._analyse_compound)

    def unstemmed(self, text: str, *, joined: bool = False) -> QueryTerms:
        """Return a query's words before stemming and removal of stop words, and its codes.

        They are the same in every language. `joined` adds words such as `e-mail` as one word.
        """
        return self._count_terms(text, _find_with_joined if joined else find_words_and_codes)

    def _count_terms(
        self, text: str, analyse: Callable[[str], tuple[Sequence[str], Sequence[str]]]
    ) -> QueryTerms:
        """Count the words of a query and collect its codes, as `analyse` returns them."""
        query = QueryTerms({}, {})
        # Code of a day written in words (`17 May 2031`) → its first number.
        days_in_words: dict[str, tuple[str, ...]] = {}
        compounds = list(split_into_compounds(_lower(text)))
        places = sequences.find_places(compounds)
        query.sequences.update(_find_typed_sequences(compounds))
        query.sequences.update(
            *(found for _, found in sequences.find_times(text.lower(), compounds, places))
        )
        query.sequences.update(found[0] for _, found in sequences.find_dates(text))
        for compound in compounds:
            words, codes = analyse(compound)
            joined = [code for code in codes if is_joined(code)]
            _count_words(query.words, map(_strip_joint, joined))
            codes = [code for code in codes if not is_joined(code)]
            figure = read_figure(strip_possessive(compound))
            if figure is not None and figure.digits:
                self._add_number(query, figure, words)
                continue
            if figure is None:
                codes = codes[:1]  # The others are what a text's code holds.
            is_spaced = PARTED.search(compound) is not None
            parts = _weigh_parts(codes, words)
            if codes and not is_spaced:
                long_words = [word for word in words if len(word.removeprefix(self._mark)) > 1]
                words = long_words or words
            _count_words(query.words, words)
            if len(words) == 1 and not codes and not joined:
                query.single.update(words)
            for code in codes:
                query.codes[code] = parts or tuple(words)
                if number := _NUMBER_OF_COUNTRY.fullmatch(code):
                    query.codes[f"{number[1]}.0"] = tuple(words)
            if figure is not None and is_spaced and all(map(DAY.fullmatch, codes)):
                numbers = tuple(word for word in words if word.isdigit())
                for code in codes:
                    days_in_words[code] = numbers[:1]
        if len(query.words) > MAX_LOOKED_UP:
            # A code weighs as much as its parts, and one number weighs less than a whole day.
            query.codes.update(days_in_words)
        _drop_covered(query.words, text)
        return query

    def _add_number(self, query: QueryTerms, figure: Figure, words: Sequence[str]) -> None:
        """Add a number to a query: its parts, its codes, and its digits alone.

        The digits count as much as all parts together.
        """
        digits = tuple(self._mark + number for number in figure.digits)
        _count_words(query.words, words)
        for number in digits:
            query.words.setdefault(number, float(len(words)))
        for code in figure.codes:
            query.codes[code] = tuple(words)
            query.digits[code] = digits

    def term_of(self, word: str) -> str:
        """Return the term of a word returned by `unstemmed`, empty if it is dropped."""
        return next(iter(self._word_terms(word)), "")

    def matched_spans(self, query: str, text: str) -> list[tuple[int, int]]:
        """Return the character spans (start, end) of the words in `text` that the query matches.

        They are ascending and do not overlap. A code that matches as a whole is one span; otherwise
        its matching parts are.
        """
        query_terms = self.query_terms(query)
        terms = query_terms.words.keys() | query_terms.codes.keys() | query_terms.sequences
        terms |= set(map(sequences.find_other_spelling, terms)) - {""}
        terms |= find_joined(query_terms.single)
        if not query.isascii():
            for word in self.unstemmed(query).words:
                if self.term_of(word):
                    terms.add(self.term_of(characters.spell_out(word)))
        spans: list[tuple[int, int]] = []
        if not terms:
            return spans
        asked = set(filter(sequences.is_sequence, terms))
        previous = ""
        previous_start = 0
        pattern = compound_pattern_for(text, any_case=True)
        for compound in pattern.finditer(text.replace("_", "-")):
            raw = compound.group()
            lower = raw.lower()
            offset = compound.start()
            if asked and not asked.isdisjoint(sequences.find_sequences(previous, lower)):
                _add_span(spans, previous_start, compound.end())
            if not sequences.is_particle(lower):
                previous = lower
                previous_start = offset
            cached = self._cache.get(lower)
            is_simple = raw.isascii() and not _HUMP.search(raw) and not (asked and raw[0].isdigit())
            if cached and is_simple and all(map(terms.isdisjoint, cached)):
                continue  # Most words do not match.
            for start, end in self._find_spans(raw, terms):
                _add_span(spans, offset + start, offset + end)
        merged: list[tuple[int, int]] = []
        for start, end in sorted(chain(spans, self._find_spans_of_dates(text, terms))):
            _add_span(merged, start, end)
        return merged

    def _find_spans_of_dates(self, text: str, terms: set[str]) -> Iterator[tuple[int, int]]:
        """Yield the spans of times of day, and of dates as East Asian texts write them."""
        lower = text.lower()
        is_asked = any(sequences.is_sequence(term) or DAY.fullmatch(term) for term in terms)
        if not is_asked or len(lower) != len(text):
            return
        compounds = compound_pattern_for(lower).findall(lower)
        times = sequences.find_times(lower, compounds, sequences.find_places(compounds))
        found = chain(times, sequences.find_dates(lower))
        for span, codes in found:
            if not terms.isdisjoint(codes):
                yield span

    def _find_spans(self, raw: str, terms: set[str]) -> list[tuple[int, int]]:
        """Return the spans within one compound, ascending by start."""
        compound = _lower(raw)
        words, codes = self._analyse_compound(compound)
        matches_word = not terms.isdisjoint(words) or self._is_spelt_otherwise(compound, terms)
        days = chain.from_iterable(map(sequences.find_in_day, filter(DAY.fullmatch, codes)))
        matches_code = not terms.isdisjoint((*codes, *days))
        if not matches_word and not matches_code:
            return self._find_spans_in_humps(raw, terms) if _HUMP.search(raw) else []
        if LINE_WITHIN.search(raw):
            return self._find_spans_over_lines(raw, terms)
        clean = characters.normalise(raw)
        figure = read_figure(strip_possessive(raw))
        if figure is None and PARTED.search(clean) and not LINE_HYPHEN.search(raw):
            return self._find_spans_in_parts(raw, terms)
        matches_figure = figure is not None and self._matches_figure(figure, terms)
        # Offsets in a plain form of another length are not those in the text.
        has_same_offsets = len(clean) == len(raw)
        whole = [(0, len(raw) - len(find_possessive(raw)))]
        if matches_code or matches_figure or not has_same_offsets:
            return whole
        return self._find_spans_in_words(clean, terms) or whole

    def _find_spans_in_humps(self, word: str, terms: set[str]) -> list[tuple[int, int]]:
        """Return the spans of the parts of a word such as getUserName."""
        spans: list[tuple[int, int]] = []
        start = 0
        for part in characters.split_humps(word):
            end = start + len(part)
            if self._matches(part.lower(), terms):
                spans.append((start, end))
            start = end
        return spans

    def _matches_figure(self, figure: Figure, terms: set[str]) -> bool:
        """Tell whether a word that stands for the figure matches."""
        figure_terms: list[str] = []
        for word in figure.words:
            figure_terms += self._word_terms(word)
        return not terms.isdisjoint(figure_terms)

    def _find_spans_in_parts(self, raw: str, terms: set[str]) -> list[tuple[int, int]]:
        """Return the spans within a compound with spaces that only looked like a figure."""
        spans: list[tuple[int, int]] = []
        for start, part in find_parts(raw, any_case=True):
            part_spans = self._find_spans(part, terms)
            spans += _shift(part_spans, start)
        return spans

    def _find_spans_in_words(self, clean: str, terms: set[str]) -> list[tuple[int, int]]:
        """Return the spans within a compound of which only words match."""
        spans: list[tuple[int, int]] = []
        for word in characters.term_pattern().finditer(clean):
            for piece in characters.PIECE.finditer(word.group()):
                piece_spans = self._find_spans_in_piece(piece.group(), terms)
                spans += _shift(piece_spans, word.start() + piece.start())
        return spans

    def _find_spans_over_lines(self, raw: str, terms: set[str]) -> list[tuple[int, int]]:
        """Return the spans within a compound that extends over several lines.

        A pair that a line end splits extends from its first character to its last.
        """
        spans: list[tuple[int, int]] = []
        start = 0
        for line_end in LINE_WITHIN.finditer(raw):
            end, following = line_end.span()
            line_spans = self._find_spans(raw[start:end], terms)
            spans += _shift(line_spans, start)
            pair = raw[end - 1] + raw[following]
            if characters.normalise(pair) in terms:
                spans.append((end - 1, following + 1))
            start = following
        line_spans = self._find_spans(raw[start:], terms)
        return spans + _shift(line_spans, start)

    def _find_spans_in_piece(self, piece: str, terms: set[str]) -> list[tuple[int, int]]:
        if not characters.IS_UNSPACED.match(piece):
            if self._matches(piece, terms):
                return [(0, len(piece))]
            return [
                run.span()
                for run in RUN.finditer(piece)
                if not terms.isdisjoint(self._word_terms(run.group()))
            ]
        spans = []
        for start, character in enumerate(piece):
            pair = piece[start : start + 2]
            if pair in terms:
                spans.append((start, start + len(pair)))
            elif character in terms:
                spans.append((start, start + 1))
        return spans

    def _matches(self, word: str, terms: set[str]) -> bool:
        word_terms = self._word_terms(word)
        if not word_terms:
            return False
        spelt_out = self._word_terms(characters.spell_out(word))
        return not (terms.isdisjoint(word_terms) and terms.isdisjoint(spelt_out))

    def _is_spelt_otherwise(self, compound: str, terms: set[str]) -> bool:
        """Tell whether a word of a compound matches in its spelt-out form."""
        spelt = characters.spell_out(characters.normalise(compound))
        if spelt == compound or not self._remember(compound)[0]:
            return False
        words, codes = self._remember(spelt)
        return not terms.isdisjoint((*words, *codes))

    def _analyse_compound(self, compound: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (terms of words, codes) of one compound, from the cache if it is there."""
        return self._cache.get(compound) or self._remember(compound)

    def _remember(self, compound: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        words, codes = find_words_and_codes(compound)
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        terms: list[str] = []
        for word in words:
            terms += self._word_terms(word)
        for joined in join_words(compound):
            codes = (*codes, *map(_add_joint, self._word_terms(joined)))
        analysed = (tuple(terms), codes)
        self._cache[compound] = analysed
        return analysed

    def _word_terms(self, word: str) -> tuple[str, ...]:
        """Return the term of a word or pair of characters, or () for a stop word.

        If the word is also spelt in another way, adds the term to `spellings`: the index stores
        there that `köln` stands for `koeln`.
        """
        terms = self._stem(word)
        spelt_out = characters.spell_out(word)
        if terms and spelt_out != word:
            (term,) = terms
            for spelt_out_term in self._stem(spelt_out):
                if spelt_out_term != term:
                    self.spellings.setdefault(spelt_out_term, set()).add(term)
        return terms

    def _stem(self, word: str) -> tuple[str, ...]:
        if characters.IS_UNSPACED.match(word):
            return (word,)
        folded = characters.fold(word)
        if not folded or len(folded) > MAX_WORD_LENGTH:
            return ()
        with self._lock:
            if self._is_stop_word(word) or self._is_stop_word(folded):
                return ()
            form = unify_forms(folded, self.language)
            stem = ""
            if self._stemmer:
                stem = self._stemmer.analyze(form)[0]
            return (self._mark + (stem or form),)

    def _is_stop_word(self, word: str) -> bool:
        """Tell whether a word is a stop word. The caller holds the lock."""
        return self._stop_words is not None and not self._stop_words.analyze(word)


_STOP_WORDS_LOCK = Lock()


@lru_cache(maxsize=100_000)
def _is_stop_word_somewhere(word: str) -> bool:
    """Tell whether a word is a stop word in any language."""
    with _STOP_WORDS_LOCK:
        return any(not stop_words.analyze(word) for stop_words in _all_stop_words())


@lru_cache(maxsize=1)
def _all_stop_words() -> list[TextAnalyzer]:
    filters = [_build_filter("stopword", name) for name in STOP_WORDS.values()]
    return [stop_words for stop_words in filters if stop_words is not None]


@lru_cache(maxsize=8)
def _shared_analyzer(language: str) -> Analyzer:
    return Analyzer(language)


def matched_spans(query: str, text: str, language: str = "none") -> list[tuple[int, int]]:
    """Return `Analyzer(language).matched_spans(query, text)` with a cached analyzer.

    It works without an index.
    """
    return _shared_analyzer(language).matched_spans(query, text)


def split_into_compounds(text: str, *, any_case: bool = False) -> Iterator[str]:
    """Yield the compounds of a text: words, words joined by marks, and figures.

    The text is in lower case, unless `any_case` is set.
    """
    for compound in compound_pattern_for(text, any_case=any_case).findall(text):
        if PARTED.search(compound) and read_figure(strip_possessive(compound)) is None:
            for _, part in find_parts(compound, any_case=any_case):
                yield part
        else:
            yield compound


def _find_with_joined(compound: str) -> tuple[list[str], tuple[str, ...]]:
    """Return words and codes, with a code for the words as one: `-email` for `e-mail`."""
    words, codes = find_words_and_codes(compound)
    return words, (*codes, *map(_add_joint, join_words(compound)))


def _count_words(counts: dict[str, float], words: Iterable[str]) -> None:
    for word in words:
        counts[word] = counts.get(word, 0.0) + 1.0


def _find_typed_sequences(compounds: Iterable[str]) -> Iterator[str]:
    """Yield the codes of the sequences in a query: of `python 3.11` only that of the whole."""
    previous = ""
    for compound in compounds:
        yield from sequences.find_sequences(previous, compound)[-1:]
        yield from _find_sequences_within(compound)
        if not sequences.is_particle(compound):
            previous = compound


def _find_sequences_within(compound: str) -> list[str]:
    """Return the codes of a measure or a month that is one compound."""
    return sequences.find_measure(compound) + sequences.find_month(compound)


def _weigh_parts(codes: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a code that is worth more than the words asked for, else nothing.

    Those of a day include its single digits. A section of a law is worth twice its number, and R&D
    twice its letters.
    """
    if codes and all(map(DAY.fullmatch, codes)):
        return tuple(words)
    if any(code.startswith("§") or "&" in code for code in codes):
        return (*words, *words)
    return ()


def _drop_covered(words: dict[str, float], text: str) -> None:
    """Remove single Han characters that pairs cover."""
    if text.isascii():
        return
    for pair in list(words):
        if len(pair) == 2 and characters.IS_HAN.search(pair):
            for character in pair:
                words.pop(character, None)


def _lower(text: str) -> str:
    """Return the text in lower case, with "-" for "_".

    Both join words, but a regular expression counts "_" as part of them.
    """
    return text.lower().replace("_", "-")


def _add_span(spans: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a span to ascending ones, as one with those at its end that it touches."""
    while spans and start <= spans[-1][1]:
        last_start, last_end = spans.pop()
        start = min(start, last_start)
        end = max(end, last_end)
    spans.append((start, end))


def _shift(spans: Iterable[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    return [(start + offset, end + offset) for start, end in spans]


def _build_filter(kind: str, language: str | None) -> TextAnalyzer | None:
    if language is None:
        return None
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    chosen = getattr(Filter, kind)(language)
    return TextAnalyzerBuilder(Tokenizer.raw()).filter(chosen).build()
