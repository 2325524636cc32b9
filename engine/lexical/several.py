"""A corpus of several languages: chunks are stemmed in theirs, queries in all of them."""

# Terms of the main language are plain stems. Those of another language carry its code,
# `de:vertrag`, so that a stem of one language is not taken for one of another.
#
# A query's word searches for its terms in all languages but counts as one word: with df_w the
# number of chunks that contain it in any language, each of its terms t counts idf(df_w) / idf(df_t)
# times. A language's stop words are assumed to occur in each of its chunks.
#
# Also with a single language, a word may be spelt in two ways: `Köln` searches for `Koeln`, too. A
# word typed as `Stroessner` searches for `Strößner` only if a chunk has it, since `poet` is not
# `pöt`.

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

import numpy as np

from engine.lexical.analysis import Analyzer
from engine.lexical.bm25 import idf
from engine.lexical.characters import fold, normalise, spell_out
from engine.lexical.codes import find_joined
from engine.lexical.query_terms import QueryTerms

Frequency = Callable[[str], int]
"""Returns the number of chunks that contain a term."""
Spellings = Mapping[str, Iterable[str]]
"""Term of a spelt-out word → terms of the words with ä, ö, ü, å or ø that it stands for."""
_SPELT_IN_TWO_WAYS = re.compile("ae|oe|ue|aa|dj|[^\\x00-\\x7f]", re.IGNORECASE)


class Analyzers:
    """The analyzers of a corpus: `main` for its main language, and one for each other language.

    `counts`: language → number of chunks, including the main language; empty if there is no other.
    `spellings` returns the spellings of the words of all chunks.
    """

    def __init__(
        self,
        language: str,
        counts: Mapping[str, int],
        spellings: Callable[[], Spellings] = dict[str, list[str]],
    ) -> None:
        self.main = Analyzer(language)
        self._spellings = spellings
        self._counts = {code: count for code, count in counts.items() if count}
        others = sorted(self._counts.keys() - {language})
        self._others = {code: Analyzer(code, prefix=f"{code}:") for code in others}

    @property
    def languages(self) -> set[str]:
        """Codes of all languages that chunks are analysed in."""
        return {self.main.language, *self._others}

    def of(self, language: str) -> Analyzer:
        """Return the analyzer of `language`: the main one if no chunks are in that language."""
        return self._others.get(language, self.main)

    def query_terms(
        self,
        text: str,
        frequency: Frequency,
        chunks: int,
    ) -> QueryTerms:
        """Return a query's terms in every language.

        `frequency` returns in how many of the `chunks` a term occurs.
        """
        if not self._others and not _SPELT_IN_TWO_WAYS.search(text):
            return self.main.query_terms(text)
        query = self.main.unstemmed(text, joined=True)
        words: dict[str, float] = {}
        single: set[str] = set()
        for word, count in query.words.items():
            terms = self._weigh_terms(word, frequency, chunks)
            for term, weight in terms.items():
                words[term] = words.get(term, 0.0) + count * weight
            if word in query.single:
                single.update(self._terms_of([word]))
        for analyzer in (self.main, *self._others.values()):
            single.update(analyzer.find_stop_words_in_capitals(text))
        codes = {}
        for code, parts in query.codes.items():
            codes[code] = self._choose_parts(parts, frequency)
        digits = {}
        for code, numbers in query.digits.items():
            digits[code] = self._terms_of(numbers)
        return QueryTerms(
            words,
            codes,
            digits,
            single,
            query.sequences,
        )

    def _weigh_terms(
        self,
        word: str,
        frequency: Frequency,
        chunks: int,
    ) -> dict[str, float]:
        """Return idf(df_w) / idf(df_t) for each term t of a word w that some chunk contains.

        df_w counts the chunks with any term of the word, and all chunks in a language in which it
        is a stop word.
        """
        frequencies: dict[str, int] = {}
        word_frequency = 0
        for language, terms in self._find_forms(word).items():
            if not terms:
                word_frequency += self._counts.get(language, 0)
            for term in terms:
                frequencies[term] = frequency(term)
        word_frequency = min(chunks, word_frequency + sum(frequencies.values()))
        weights: dict[str, float] = {}
        for term, term_frequency in frequencies.items():
            if term_frequency:
                counts = np.array([word_frequency, term_frequency], np.int64)
                word_idf, term_idf = idf(counts, chunks)
                weights[term] = float(word_idf / term_idf)
        return weights

    def _choose_parts(self, words: Iterable[str], frequency: Frequency) -> tuple[str, ...]:
        """Return, for each part of a code, the one of its terms that most chunks contain."""
        parts = []
        for word in words:
            # A word has no terms in a language in which it is a stop word.
            candidates = [terms[0] for terms in self._find_forms(word).values() if terms]
            if candidates:
                parts.append(max(candidates, key=frequency))
        return tuple(parts)

    def terms_by_word(self, text: str) -> list[set[str]]:
        """Return the terms, in every language, of each word of a text.

        A whole code counts as one word. Words that are stop words in any language are omitted.
        """
        query = self.main.unstemmed(text)
        words_in_codes: set[str] = set()
        # All readings of a number or day have the same parts, and count as one word.
        terms_by_parts: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for code, parts in query.codes.items():
            digits = query.digits.get(code, ())
            words_in_codes.update(parts, digits)
            terms = terms_by_parts[parts]
            terms.add(code)
            terms.update(self._terms_of(digits))
        other_words = [word for word in query.words if word not in words_in_codes]
        return [*terms_by_parts.values(), *self._merge_forms(other_words)]

    def parts_by_word(self, text: str) -> list[set[str]]:
        """Return the terms, in every language, of each part of the codes of a text.

        Parts that are stop words in any language are omitted.
        """
        parts = chain.from_iterable(self.main.unstemmed(text).codes.values())
        return self._merge_forms(dict.fromkeys(parts))

    def _merge_forms(self, words: Iterable[str]) -> list[set[str]]:
        """Return the terms, in all languages, of each word that is a stop word in none.

        They include codes such as `-email`, for texts that write `e-mail`.
        """
        merged = []
        for word in words:
            forms = self._find_forms(word).values()
            if all(forms):
                terms = set(chain.from_iterable(forms))
                merged.append(terms | find_joined(terms))
        return merged

    def _terms_of(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the terms of some words in every language."""
        terms: list[str] = []
        for word in words:
            terms += chain.from_iterable(self._find_forms(word).values())
        return tuple(terms)

    def is_stop_word(self, word: str) -> bool:
        """Return whether a word is a stop word in one of the languages.

        A word with several parts, such as `DE89`, is one only if all its parts are.
        """
        words = self.main.unstemmed(word).words
        return bool(words) and not self._merge_forms(words)

    def mark_beginnings(self, beginning: str) -> list[str]:
        """Return, for each language, how the terms of words with this beginning begin.

        `Vert` gives `vert` in the main language and `de:vert` in German.
        """
        folded = fold(normalise(beginning))
        return [folded, *(f"{code}:{folded}" for code in self._others)]

    def collect_spellings(self) -> dict[str, set[str]]:
        """Return the spellings of the words of all texts analysed so far."""
        spellings: dict[str, set[str]] = {}
        for analyzer in (self.main, *self._others.values()):
            spellings |= analyzer.spellings
        return spellings

    def _find_forms(self, word: str) -> dict[str, tuple[str, ...]]:
        """Return language → a word's terms, including those of its other spellings.

        There are none in a language in which it is a stop word.
        """
        spelt_out = spell_out(word)
        has_spellings = _SPELT_IN_TWO_WAYS.search(spelt_out) is not None
        forms: dict[str, tuple[str, ...]] = {}
        for analyzer in (self.main, *self._others.values()):
            terms: list[str] = []
            term = analyzer.term_of(word)
            if term:
                terms = [term, analyzer.term_of(spelt_out)]
            if term and has_spellings:
                # Chunks may have `Strößner` for `Stroessner`.
                spellings = self._spellings()
                for known in terms.copy():
                    terms += spellings.get(known, ())
            distinct_terms = dict.fromkeys(filter(None, terms))
            forms[analyzer.language] = tuple(distinct_terms)
        return forms
