"""The terms of an index: how many chunks contain each, and which resemble a word or a code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from engine.lexical.bm25 import Weights, idf
from engine.lexical.characters import fold, normalise, spell_out, word_pattern
from engine.lexical.code_spellings import CodeVocabulary
from engine.lexical.codes import is_code, is_in_another_language, is_whole, strip_language
from engine.lexical.numbers.sequences import find_other_spelling
from engine.lexical.several import Analyzers
from engine.lexical.words.forms import find_irregular
from engine.lexical.writing import CODES, WORDS, NotedSpellings, panics_are_damage

MAX_LISTED = 200_000
"""Number of chunks beyond which terms are not listed, since all would be held in memory."""
# Minimum similarity of stems (difflib): `dosng` is like `dosing`, whose stem is `dose`.
LIKE = 0.65
MIN_SIMILAR = 4
"""Minimum length of a word for which similar ones are looked for."""
_MAX_SIMILAR = 5
# The beginning of a long word.
_LONG_WORD = "vertrags"
# Minimum length of the stem of an ending.
_MIN_ENDING = 4


class Vocabulary:
    """The terms of an opened index of `count` chunks. Thread-safe.

    Methods raise DamagedError if tantivy cannot read the index.
    """

    def __init__(
        self,
        folder: Path,
        index: tantivy.Index,
        count: int,
        analyzers: Analyzers,
        spellings: NotedSpellings,
        *,
        has_deleted: bool,
    ) -> None:
        self._folder = folder
        self._schema = index.schema
        self._searcher = index.searcher()
        self._count = count
        self._analyzers = analyzers
        self._spellings = spellings
        self._has_deleted = has_deleted
        # Term → number of chunks that contain it.
        self._frequencies: dict[str, int] = {}
        # Language → the terms of its words, one on each line.
        self._listed_words: dict[str, str] = {}
        self._codes: CodeVocabulary | None = None

    @property
    def languages(self) -> set[str]:
        """Codes of all languages that chunks are analysed in."""
        return self._analyzers.languages

    @property
    def is_listed(self) -> bool:
        """Whether all terms may be searched; in a large index, they are too many."""
        return self._count <= MAX_LISTED

    def document_frequency(self, term: str) -> int:
        """Return the number of chunks that contain an analysed term (a word or a code)."""
        if any("\ud800" <= char <= "\udfff" for char in term):
            # The term has half of a surrogate pair, and tantivy only takes UTF-8.
            return 0
        field = CODES if is_code(term) else WORDS
        with panics_are_damage(self._folder):
            if not self._has_deleted:
                return self._searcher.doc_freq(field, term)
            if term not in self._frequencies:
                query = tantivy.Query.term_query(
                    self._schema,
                    field,
                    term,
                    "basic",
                )
                # The stub of `search` lacks the count.
                result: Any = self._searcher.search(
                    query,
                    1,
                    count=True,
                )
                self._frequencies[term] = int(result.count)
            return self._frequencies[term]

    def idf(self, terms: Sequence[str]) -> Weights:
        """Return ln(1 + (N − df + ½)/(df + ½)) of analysed terms, shape (len(terms),)."""
        frequencies = list(map(self.document_frequency, terms))
        return idf(np.array(frequencies, np.int64), self._count)

    def contains(self, word: str) -> bool:
        """Return whether any chunk contains a word in any form, or whether it is a stop word."""
        return not self._analyzers.terms_by_word(word) or self.has_chunks_with(word)

    def has_chunks_with(self, word: str) -> bool:
        """Return whether any chunk contains a word in any form; false for a stop word."""
        words = self._analyzers.terms_by_word(word)
        return any(map(self.document_frequency, chain.from_iterable(words)))

    def is_stop_word(self, word: str) -> bool:
        """Return whether a word is a stop word in a language that chunks are analysed in."""
        return self._analyzers.is_stop_word(word)

    def find_containing(self, part: str, language: str) -> Iterator[str]:
        """Yield the terms of a language's words that contain a part."""
        if language not in self._listed_words:
            self._listed_words[language] = self._list_words(language)
        # Searching one long text is faster than searching many terms.
        listed = self._listed_words[language]
        at = listed.find(part)
        while at >= 0:
            start = listed.rfind("\n", 0, at) + 1
            end = listed.find("\n", at)
            yield listed[start:end]
            at = listed.find(part, end)

    def _list_words(self, language: str) -> str:
        """Return the terms of a language's words, one on each line."""
        is_main = language == self._analyzers.main.language
        terms = self._find_with_prefix(WORDS, "" if is_main else f"{language}:")
        if is_main:
            terms = [term for term in terms if not is_in_another_language(term)]
        return "".join(f"{term}\n" for term in terms)

    def _find_with_prefix(self, field: str, prefix: str) -> list[str]:
        """Return the terms of a field of the index that begin like this, in order."""
        with panics_are_damage(self._folder):
            return [term for term, _ in self._searcher.terms_with_prefix(field, prefix)]

    def find_stems(self, beginning: str) -> set[str]:
        """Return the terms of all words that may begin with `beginning`.

        The last two letters of a stem may differ from the beginning, or be missing, since stemmers
        change endings. Words with ä, ö, ü, å or ø that begin like this when spelt out are included,
        and so are irregular forms such as `mice`.
        """
        typed = normalise(beginning)
        spelt_out = spell_out(typed)
        # German stems have o for oe.
        german = map(strip_language, self.analyse(spelt_out, "de"))
        stems: set[str] = set()
        for spelling in {typed, spelt_out, *german}:
            stems |= self._find_stems_as_spelt(spelling)
            stems.update(self.analyse(spelling))
        folded = fold(spelt_out)
        for language in self._analyzers.languages:
            for word in find_irregular(folded, language):
                stems.update(self.analyse(word, language))
        # The index has noted how words with ä, ö, ü, å or ø are spelt out.
        prefix = folded[: max(3, len(folded) - 2)]
        for term, spellings in self._spellings().items():
            if strip_language(term).startswith(prefix):
                stems.update(spellings)
        return stems

    def find_endings(self, ending: str) -> set[str]:
        """Return how the terms of words with this ending may end, in all languages.

        Empty if that is not known: of -vertrag it is, of -ung, which stemmers cut off, it is not.
        """
        endings: set[str] = set()
        for language in self._analyzers.languages:
            for word in {normalise(ending), spell_out(normalise(ending))}:
                in_long_word = self.stem_ending(word, language)
                alone = "".join(map(strip_language, self.analyse(word, language)))
                if len(in_long_word) < _MIN_ENDING or not alone.startswith(in_long_word):
                    return set()
                endings |= {in_long_word, alone}
        return endings

    def stem_ending(self, ending: str, language: str) -> str:
        """Return how the terms of long words with this ending end, empty if that is not known.

        Stemmers cut more off a long word.
        """
        term = "".join(self.analyse(_LONG_WORD + normalise(ending), language))
        stem = strip_language(term)
        return stem.removeprefix(_LONG_WORD) if stem.startswith(_LONG_WORD) else ""

    def _find_stems_as_spelt(self, beginning: str) -> set[str]:
        """Return the terms with this beginning; up to two letters at a term's end may differ."""
        stems: set[str] = set()
        prefixes = self._analyzers.mark_beginnings(beginning[:2])
        beginnings = self._analyzers.mark_beginnings(beginning)
        for prefix, typed in zip(prefixes, beginnings, strict=True):
            for term in self._find_with_prefix(WORDS, prefix):
                compared_length = max(len(prefix) + 1, len(term) - 2)
                if typed.startswith(term[:compared_length]) or term.startswith(typed):
                    stems.add(term)
        return stems

    def analyse(self, text: str, language: str = "") -> list[str]:
        """Return the indexed terms of a text in `language` (empty: the main one)."""
        return self._analyzers.of(language).analyse(text)

    def find_similar_terms(self, word: str) -> list[str]:
        """Return the terms most similar to a word that no chunk contains, with the same beginning.

        The first letter is the same. Up to five stems for each language; none if a chunk contains
        the word, or if it is short or not alphabetic.
        """
        from difflib import get_close_matches

        words = self._analyzers.terms_by_word(word)
        is_short = len(word) < MIN_SIMILAR
        if is_short or len(words) != 1 or not word.isalpha():
            return []
        (terms,) = words
        if any(map(self.document_frequency, terms)):
            return []
        terms_by_stem: defaultdict[str, list[str]] = defaultdict(list)
        for term in self.find_stems(word[0]):
            terms_by_stem[strip_language(term)].append(term)
        similar: dict[str, None] = {}
        for stem in set(map(strip_language, terms)):
            similar |= dict.fromkeys(get_close_matches(stem, terms_by_stem, _MAX_SIMILAR, LIKE))
        return list(chain.from_iterable(terms_by_stem[stem] for stem in similar))

    def find_spellings(self, term: str, text: str) -> set[str]:
        """Return the words of a text, in lower case, that are indexed as a term."""
        language = term.rpartition(":")[0]
        words = word_pattern().findall(text.lower())
        return {word for word in words if term in self.analyse(word, language)}

    def find_code_spellings(self, code: str) -> list[str]:
        """Return the indexed codes that a code may mean if no chunk contains it as typed.

        Either chunks contain a code within it (a day, or a version without `v`), or they contain a
        longer code, or one with other marks between the same letters and digits.
        """
        if not self.is_listed:
            return []
        codes = list(filter(is_whole, self._analyzers.main.terms(code).codes))
        typed, *inner_codes = codes or [normalise(code)]
        indexed = [part for part in inner_codes if self.document_frequency(part)]
        if indexed:
            return indexed
        if self._codes is None:
            self._codes = CodeVocabulary(self._find_with_prefix(CODES, ""))
        return self._codes.find_spellings(typed)

    def has_sequence(self, code: str) -> bool:
        """Return whether a chunk contains a code as a word and a number: `KW42` as `KW 42`."""
        codes = map(find_other_spelling, self._analyzers.main.terms(code).codes)
        return any(map(self.document_frequency, filter(None, codes)))
