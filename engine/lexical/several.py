"""A corpus of several languages: each chunk's words are stemmed in its own, a query's in all of
them.

A word of a chunk that is not in the corpus' main language becomes a term of its language,
`de:vertrag`, so that no stem of one language is taken for one of another. A query's word asks for
all its terms, and counts as what it is, one word: where df_w is the number of chunks that hold it
in any language, each of its terms t counts idf(df_w) / idf(df_t) times. A language's stop words are
taken to stand in each of its chunks. With one language nothing of this applies, but that a word may
be spelt in two ways, `Köln` and `Koeln`: it asks for the terms of both. A word that is typed as
`Stroessner` also asks for what the chunks have as `Strößner`, which the index knows: `poet` is no
`pöt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from engine.lexical.analysis import Analyzer, QueryTerms
from engine.lexical.bm25 import idf
from engine.lexical.characters import fold, normalise, spell_out

Frequency = Callable[[str], int]
Spellings = Mapping[str, Iterable[str]]
"""The term of a word that is spelt out → the terms of the words with ä, ö, ü, å or ø that it
stands for.
"""
_SPELT_IN_TWO_WAYS = re.compile("ae|oe|ue|aa|[^\\x00-\\x7f]", re.IGNORECASE)


class Analyzers:
    """`main` for texts in the corpus' main language, one more for each other language that it
    has chunks in.

    `counts`: chunks per language, the main one's included; empty where there is no other.
        `spellings`: of the words of all chunks.
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
        """The analyzer of texts in `language`: the main one where there are no chunks in it."""
        return self._others.get(language, self.main)

    def query_terms(self, text: str, frequency: Frequency, chunks: int) -> QueryTerms:
        """A query's terms in every language.

        `frequency`: in how many of the `chunks` a term occurs.
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
        """Of each part of a code, the term that most chunks hold."""
        forms = ([terms[0] for terms in self._forms(word).values() if terms] for word in words)
        return tuple(max(terms, key=frequency) for terms in forms if terms)

    def terms_by_word(self, text: str) -> list[set[str]]:
        """The terms, in every language, of each word of a text; a whole code is one.

        Words that a language drops are left out.
        """
        query = self.main.unstemmed(text)
        parts = {
            part for words in (*query.codes.values(), *query.digits.values()) for part in words
        }
        forms = [self._forms(word).values() for word in query.words if word not in parts]
        readings: dict[
            tuple[str, ...], set[str]
        ] = {}  # of one number or day all have the same parts
        for code, words in query.codes.items():
            readings.setdefault(words, set()).update(
                (code, *self._terms_of(query.digits.get(code, ())))
            )
        return [*readings.values()] + [set().union(*listed) for listed in forms if all(listed)]

    def parts_by_word(self, text: str) -> list[set[str]]:
        """The terms, in every language, of each part of the codes of a text.

        Parts that a language drops are left out.
        """
        query = self.main.unstemmed(text)
        forms = [
            self._forms(part).values() for part in dict.fromkeys(sum(query.codes.values(), ()))
        ]
        return [set().union(*listed) for listed in forms if all(listed)]

    def _terms_of(self, words: Iterable[str]) -> tuple[str, ...]:
        """The terms of some words in every language."""
        return tuple(
            term for word in words for terms in self._forms(word).values() for term in terms
        )

    def leaves_out(self, word: str) -> bool:
        """Whether a word is a stop word in one of the languages."""
        words = self.main.unstemmed(word).words
        return bool(words) and any(not all(self._forms(one).values()) for one in words)

    def marked(self, beginning: str) -> list[str]:
        """How terms begin, in every language, of words that begin like this."""
        return [
            mark + fold(normalise(beginning))
            for mark in ("", *(f"{code}:" for code in self._others))
        ]

    def noted_spellings(self) -> dict[str, set[str]]:
        """The spellings of the words of all texts that were analysed."""
        noted: dict[str, set[str]] = {}
        for analyzer in (self.main, *self._others.values()):
            noted |= analyzer.spellings
        return noted

    def _forms(self, word: str) -> dict[str, tuple[str, ...]]:
        """A word's term in each language, with those of its other spellings; empty where that
        language drops it.
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
