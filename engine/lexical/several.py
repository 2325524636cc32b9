"""A corpus of several languages: chunks are stemmed in theirs, queries in all of them."""

# A word of a chunk that is not in the corpus' main language becomes a term of its language,
# `de:vertrag`, so that no stem of one language is confused with one of another. A query's word
# searches for all its terms but counts as one word: with df_w the number of chunks that contain it
# in any language, each of its terms t counts idf(df_w) / idf(df_t) times. A language's stop words
# are assumed to occur in each of its chunks. With one language none of this applies, except that a
# word may be spelt in two ways, `Köln` and `Koeln`: it searches for the terms of both. A word typed
# as `Stroessner` also searches for the `Strößner` of the chunks, which the index knows: `poet` is
# not `pöt`.

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from engine.lexical.analysis import Analyzer, QueryTerms
from engine.lexical.bm25 import idf
from engine.lexical.characters import fold, normalise, spell_out

Frequency = Callable[[str], int]
Spellings = Mapping[str, Iterable[str]]
"""Term of a spelt-out word → terms of the words with ä, ö, ü, å or ø that it stands for."""
_SPELT_IN_TWO_WAYS = re.compile("ae|oe|ue|aa|[^\\x00-\\x7f]", re.IGNORECASE)


class Analyzers:
    """The analyzers of a corpus: `main` for its main language, and one for each other language.

    `counts` is the number of chunks per language, including the main one; empty if there is no
    other. `spellings` are those of the words of all chunks.
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
        self._others = {
            code: Analyzer(code, mark=f"{code}:")
            for code in sorted(self._counts)
            if code != language
        }

    def of(self, language: str) -> Analyzer:
        """Return the analyzer of `language`: the main one if no chunks are in that language."""
        return self._others.get(language, self.main)

    def query_terms(self, text: str, frequency: Frequency, chunks: int) -> QueryTerms:
        """Return a query's terms in every language.

        `frequency` returns in how many of the `chunks` a term occurs.
        """
        if not self._others and not _SPELT_IN_TWO_WAYS.search(text):
            return self.main.query_terms(text)
        query = self.main.unstemmed(text)
        words: dict[str, float] = {}
        for word, count in query.words.items():
            forms = self._forms(word)
            held = {
                term: found
                for terms in forms.values()
                for term in terms
                if (found := frequency(term))
            }
            stopped = sum(
                self._counts.get(language, 0) for language, terms in forms.items() if not terms
            )
            together = min(chunks, sum(held.values()) + stopped)
            for term, found in held.items():
                rarity, own = idf(np.array([together, found], dtype=np.int64), chunks)
                words[term] = words.get(term, 0.0) + count * float(rarity / own)
        codes = {code: self._parts(parts, frequency) for code, parts in query.codes.items()}
        digits = {code: self._terms_of(numbers) for code, numbers in query.digits.items()}
        return QueryTerms(words, codes, digits)

    def _parts(self, words: Iterable[str], frequency: Frequency) -> tuple[str, ...]:
        """Return, for each part of a code, the term that most chunks contain."""
        forms = ([terms[0] for terms in self._forms(word).values() if terms] for word in words)
        return tuple(max(terms, key=frequency) for terms in forms if terms)

    def terms_by_word(self, text: str) -> list[set[str]]:
        """Return the terms, in every language, of each word of a text; a whole code is one.

        Words that are stop words in any language are omitted.
        """
        query = self.main.unstemmed(text)
        parts = {
            part for words in (*query.codes.values(), *query.digits.values()) for part in words
        }
        forms = [self._forms(word).values() for word in query.words if word not in parts]
        # All readings of a number or day have the same parts.
        readings: dict[tuple[str, ...], set[str]] = {}
        for code, words in query.codes.items():
            readings.setdefault(words, set()).update(
                (code, *self._terms_of(query.digits.get(code, ())))
            )
        return [*readings.values()] + [set().union(*listed) for listed in forms if all(listed)]

    def parts_by_word(self, text: str) -> list[set[str]]:
        """Return the terms, in every language, of each part of the codes of a text.

        Parts that are stop words in any language are omitted.
        """
        query = self.main.unstemmed(text)
        forms = [
            self._forms(part).values() for part in dict.fromkeys(sum(query.codes.values(), ()))
        ]
        return [set().union(*listed) for listed in forms if all(listed)]

    def _terms_of(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the terms of some words in every language."""
        return tuple(
            term for word in words for terms in self._forms(word).values() for term in terms
        )

    def is_stop_word(self, word: str) -> bool:
        """Tell whether a word is a stop word in one of the languages."""
        words = self.main.unstemmed(word).words
        return bool(words) and any(not all(self._forms(one).values()) for one in words)

    def mark_beginnings(self, beginning: str) -> list[str]:
        """Return how terms begin, in every language, for words that begin like this."""
        return [
            mark + fold(normalise(beginning))
            for mark in ("", *(f"{code}:" for code in self._others))
        ]

    def collect_spellings(self) -> dict[str, set[str]]:
        """Return the spellings of the words of all texts analysed so far."""
        noted: dict[str, set[str]] = {}
        for analyzer in (self.main, *self._others.values()):
            noted |= analyzer.spellings
        return noted

    def _forms(self, word: str) -> dict[str, tuple[str, ...]]:
        """Return a word's terms in each language, including those of its other spellings.

        They are empty for a language in which it is a stop word.
        """
        spelt = spell_out(word)
        forms = {}
        for analyzer in (self.main, *self._others.values()):
            term = analyzer.term_of(word)
            if spelt != word:
                others = [analyzer.term_of(spelt)]
            else:
                others = []
            if _SPELT_IN_TWO_WAYS.search(spelt):
                for known in dict.fromkeys((term, *others)):
                    others += self._spellings().get(known, ())
            forms[analyzer.language] = (
                tuple(filter(None, dict.fromkeys((term, *others)))) if term else ()
            )
        return forms
