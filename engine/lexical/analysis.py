"""From text to BM25 terms, the same way for chunks and queries.

Amounts, numbers and days have one code in all spellings (numbers/figures.py).
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
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engine.lexical import characters
from engine.lexical.codes import add_joint
from engine.lexical.languages import NO_LANGUAGE, STEMMERS, STOP_WORDS
from engine.lexical.numbers import sequences
from engine.lexical.numbers.figures import compound_pattern_for
from engine.lexical.query_terms import QueryTerms, QueryTermsCounter
from engine.lexical.words.forms import unify_forms
from engine.lexical.words.suspended import find_suspended
from engine.lexical.words_and_codes import (
    DAY,
    MAX_WORD_LENGTH,
    find_words_and_codes,
    join_words,
)

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

# Maximum number of compounds whose terms are cached.
_CACHE_SIZE = 1_000_000
_LETTERS = re.compile(r"[^\W\d_]+")
# Languages whose texts write `Kranken- und Pflegeversicherung`.
_HAVE_COMPOUNDS = frozenset(("da", "de", "fi", "hu", "nl", "no", NO_LANGUAGE, "sv"))
# Parts of a word such as getUserName; a longer one is data, not a name.
_MAX_HUMPS = 10


class Terms(NamedTuple):
    """The terms of a text, with repetitions.

    ============= ================== ======================= ===================
    text          words              codes                   sequences
    ============= ================== ======================= ===================
    leaked pumps  `leak` `pump`
    e-mail        `e` `mail`         `-email`
    getUserName   `getusernam`       `-get` `-user` `-name`
    NGOs          `ngos`             `-ngo`
    our IT        `our`              `-it`
    PHX-121       `phx` `121`        `phx-121`
    12,750.00     `12` `750` `00`    `12750.0`
    Windows 10    `window` `10`                              `=windows-10`
    5 kilograms   `5` `kilogram`                             `=5-kg`
    17 May 2031   `17` `may` `2031`  `2031-05-17`            `=2031-05` `=-05-17`
    ============= ================== ======================= ===================
    """

    words: list[str]
    """Words in order of the text, as stems."""
    codes: list[str]
    """Whole codes, such as `phx-121`."""
    sequences: list[str]
    """Codes of words and numbers that follow each other, such as `=windows-10`."""


class CompoundTerms(NamedTuple):
    """The terms of one compound: a word, words joined by marks, or a figure."""

    words: tuple[str, ...]
    codes: tuple[str, ...]
    sequences: tuple[str, ...]
    """Sequences within the compound: `45nm` has `=45-nm`, `2031-05-17` has `=2031-05`."""


class Analyzer:
    """Analyses text in one language, an ISO 639-1 code. Thread-safe.

    In a language without a stemmer, or with "none", words are only lower-cased and folded.
    `stop_words` tells whether stop words are dropped. Every term that is neither a code nor a pair
    of characters begins with `prefix`, such as `de:`, which keeps languages apart.
    """

    def __init__(
        self,
        language: str,
        stop_words: bool = True,
        prefix: str = "",
    ) -> None:
        self.language = language
        self._prefix = prefix
        self._stemmer = _build_filter("stemmer", STEMMERS.get(language))
        self._stop_words = None
        if stop_words:
            self._stop_words = _build_filter("stopword", STOP_WORDS.get(language))
        self._cache: dict[str, CompoundTerms] = {}
        self._lock = Lock()
        self.spellings: dict[str, set[str]] = {}
        """Term of a spelt-out word → other terms of the same word: `koeln` → `koln` of `Köln`."""

    def terms(self, text: str) -> Terms:
        """Return the words and codes of a text. Never raises, whatever the text."""
        words: list[str] = []
        codes: list[str] = []
        capitals: list[tuple[str, sequences.Occurrence]] = []
        if characters.has_capitals(text):
            codes += map(add_joint, self.find_stop_words_in_capitals(text))
            codes += self._join_humps(text) if characters.has_humps(text) else ()
            codes += self._join_singulars(text)
            capitals += sequences.find_capitals(text)
        text = characters.lower(text)
        if self.language in _HAVE_COMPOUNDS:
            codes += self._join_suspended(text)
        compounds = compound_pattern_for(text).findall(text)
        cached = self._cache.get  # One call fewer for each compound.
        for compound in compounds:
            compound_words, compound_codes, _ = cached(compound) or self._analyse(compound)
            words += compound_words
            codes += compound_codes
        all_sequences = list(self._find_sequences(text, compounds))
        for word, occurrence in capitals:
            if self.is_in_sequences(word):
                all_sequences += occurrence.codes
        return Terms(words, codes, all_sequences)

    def find_stop_words_in_capitals(self, text: str) -> set[str]:
        """Return what would be the terms of stop words in capitals: `it` for `our IT`.

        Empty for a text in which all words are in capitals.
        """
        if self._stop_words is None or text.isupper():
            return set()
        words = characters.WORD_IN_CAPITALS.findall(text)
        if not words:
            return set()
        distinct = set(map(str.lower, words))
        return {self._prefix + word for word in distinct if not self.analyse_compound(word).words}

    def _join_humps(self, text: str) -> Iterator[str]:
        """Yield a code for each part of words such as getUserName: `-get`, `-user`, `-name`."""
        for word in _LETTERS.findall(text):
            if word.islower() or word.istitle() or word.isupper():
                continue  # Most words have no humps.
            parts = characters.split_humps(word)
            if 1 < len(parts) <= _MAX_HUMPS:
                terms = filter(None, map(self.term_of, map(str.lower, parts)))
                yield from map(add_joint, terms)

    def _join_singulars(self, text: str) -> Iterator[str]:
        """Yield a code for each plural such as PDFs whose s the stemmer keeps: `-pdf`."""
        for plural in characters.find_acronym_plurals(text):
            singular = self.term_of(plural[1].lower())
            if singular and singular != self.term_of(plural[0].lower()):
                yield add_joint(singular)

    def _join_suspended(self, text: str) -> Iterator[str]:
        """Yield codes such as `-krankenversicherung`, for `kranken- und pflegeversicherung`."""
        for suspended in find_suspended(text):
            yield from map(add_joint, filter(None, map(self.term_of, suspended.words)))

    def _find_sequences(self, text: str, compounds: Sequence[str]) -> Iterator[str]:
        """Yield the codes of the sequences in a lower-case text; `compounds`: those of the text."""
        places = sequences.find_places(compounds)
        for place in places:
            number = compounds[place]
            before, after = sequences.find_neighbours(compounds, place)
            if before and self.is_in_sequences(before):
                yield from sequences.find_sequences(before, number)
            if after and not sequences.may_be_number(after):
                yield from sequences.find_sequences(number, after)
            yield from self.analyse_compound(number).sequences
        for time in sequences.find_times(text, compounds, places):
            yield from time.codes
        for occurrence in sequences.find_by_signs(text):
            yield from occurrence.codes

    def is_in_sequences(self, word: str) -> bool:
        """Return whether a word forms a sequence with the number after it; stop words do not."""
        if self._stop_words is None:
            return not _is_stop_word_somewhere(word)
        return bool(self.analyse_compound(word).words)

    def analyse(self, text: str) -> list[str]:
        """Return the terms of a text: its words in order, then its codes, with repetitions."""
        terms = self.terms(text)
        return terms.words + terms.codes

    def query_terms(self, text: str) -> QueryTerms:
        """Return the terms of a query with their counts.

        Single characters count only if they stand alone. Inside a run of Han characters, pairs
        cover them; of the parts of a code such as `QX-77/B`, only the longer ones count, not B.
        """

        def analyse(compound: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
            terms = self.analyse_compound(compound)
            return terms.words, terms.codes

        query_terms = QueryTermsCounter(analyse, self._prefix).count(text)
        query_terms.single.update(self.find_stop_words_in_capitals(text))
        return query_terms

    def unstemmed(self, text: str, *, joined: bool = False) -> QueryTerms:
        """Return a query's words before stemming and removal of stop words, and its codes.

        They are the same in every language. `joined` adds words such as `e-mail` as one word.
        """
        analyse = _find_with_joined if joined else find_words_and_codes
        return QueryTermsCounter(analyse, self._prefix).count(text)

    def analyse_compound(self, compound: str) -> CompoundTerms:
        """Return the terms of one compound of a text in lower case (`characters.lower`)."""
        return self._cache.get(compound) or self._analyse(compound)

    def _analyse(self, compound: str) -> CompoundTerms:
        """Compute the terms of one compound, and cache them."""
        words, codes = _find_with_joined(compound, self.term_of)
        terms = tuple(filter(None, map(self.term_of, words)))
        analysed = CompoundTerms(
            terms,
            codes,
            _find_own_sequences(compound, codes),
        )
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[compound] = analysed
        return analysed

    def term_of(self, word: str) -> str:
        """Return the term of a word or pair of characters, empty for a stop word.

        If the word has a spelt-out form with another term, as `köln` has `koeln`, both are added to
        `spellings`.
        """
        term = self._stem(word)
        spelt_out = characters.spell_out(word)
        if term and spelt_out != word:
            spelt_out_term = self._stem(spelt_out)
            if spelt_out_term not in ("", term):
                self.spellings.setdefault(spelt_out_term, set()).add(term)
        return term

    def _stem(self, word: str) -> str:
        """Return the stem of a word in the analyzer's language, empty for a stop word.

        A pair of characters stays as it is.
        """
        if characters.IS_UNSPACED.match(word):
            return word
        folded = characters.fold(word)
        if not folded or len(folded) > MAX_WORD_LENGTH:
            return ""
        with self._lock:
            if any(map(self._is_stop_word, {word, folded})):
                return ""
            form = unify_forms(characters.name_greek_letter(folded), self.language)
            stem = ""
            if self._stemmer:
                stem = self._stemmer.analyze(form)[0]
            return self._prefix + (stem or form)

    def _is_stop_word(self, word: str) -> bool:
        """Return whether a word is a stop word. The caller holds the lock."""
        return self._stop_words is not None and not self._stop_words.analyze(word)


_STOP_WORDS_LOCK = Lock()


@lru_cache(maxsize=100_000)
def _is_stop_word_somewhere(word: str) -> bool:
    """Return whether a word is a stop word in any language."""
    with _STOP_WORDS_LOCK:
        return any(not stop_words.analyze(word) for stop_words in _all_stop_words())


@lru_cache(maxsize=1)
def _all_stop_words() -> list[TextAnalyzer]:
    """Return the stop-word filter of every language that has stop words."""
    filters = [_build_filter("stopword", name) for name in STOP_WORDS.values()]
    return [stop_words for stop_words in filters if stop_words is not None]


def _find_with_joined(
    compound: str, term_of: Callable[[str], str] = str
) -> tuple[list[str], tuple[str, ...]]:
    """Return the words and codes of a compound, with a code for its joined words.

    `e-mail` has the code `-email`. `term_of` returns the term of the joined word, empty for none.
    """
    words, codes = find_words_and_codes(compound)
    joined = filter(None, map(term_of, join_words(compound)))
    return words, (*codes, *map(add_joint, joined))


def _find_own_sequences(compound: str, codes: Sequence[str]) -> tuple[str, ...]:
    """Return the sequences within a compound that is a number: a measure, a month or days.

    `codes`: the codes of the compound, of which some may be days.
    """
    if not sequences.may_be_number(compound):
        return ()
    own_sequences = sequences.find_within(compound)
    for code in codes:
        if DAY.fullmatch(code):
            own_sequences += sequences.find_in_day(code)
    return tuple(own_sequences)


def _build_filter(kind: str, language: str | None) -> TextAnalyzer | None:
    """Return tantivy's filter for a language, by its English name; None without a language.

    `kind`: `stemmer` or `stopword`. The latter removes stop words.
    """
    if language is None:
        return None
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    word_filter = getattr(Filter, kind)(language)
    return TextAnalyzerBuilder(Tokenizer.raw()).filter(word_filter).build()
