"""What the corpus says about its words and sentences: rarity, names, abbreviations and
boilerplate.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.core.records import Chunk
from engine.queries.rules.sentences import split_sentences
from engine.queries.rules.tokens import Token, fold, tokenize
from engine.queries.rules.vocabulary import GIVEN_NAMES

SAMPLE = 50_000
_SHORT_FORM = re.compile(r"\(\s*[\"“”']?([A-Z][A-Za-z&-]{1,6}[A-Z]s?|[A-Z]{2,7}s?)[\"“”']?\s*\)")


@dataclass(frozen=True)
class TermStatistics:
    """Document frequencies over chunks, and what else one pass over them shows.

    `chunks` is the number of distinct chunks seen. `frequency[term]` counts chunks that hold a
    folded term, `repeated[sentence]` chunks that hold a folded sentence (only those in two or
    more). `capitalised`: terms that are mostly capitalised inside sentences, `lower_case`: mostly
    not. `people`: words that follow a given name. `long_forms`: abbreviation → the words that the
    corpus spells it out with.
    """

    chunks: int
    frequency: Mapping[str, int]
    repeated: Mapping[str, int] = field(default_factory=dict)
    capitalised: frozenset[str] = frozenset()
    long_forms: Mapping[str, str] = field(default_factory=dict)
    lower_case: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()

    @classmethod
    def from_chunks(
        cls, chunks: Sequence[Chunk], sample: int = SAMPLE, check: Callable[[], None] = lambda: None
    ) -> TermStatistics:
        """One pass over the distinct chunks; of more than `sample`, those with the lowest
        content hashes are read.

        `check` is called before each chunk: what it raises ends the pass.
        """
        distinct = {chunk.content_hash: chunk for chunk in chunks}
        read: Iterable[Chunk] = distinct.values()
        if len(distinct) > sample:
            read = heapq.nsmallest(sample, distinct.values(), key=lambda chunk: chunk.content_hash)
        counter = _Counter()
        for chunk in read:
            check()
            counter.add(chunk.text)
        return counter.result()

    def idf(self, term: str) -> float:
        """ln(1 + (N − n + ½)/(n + ½)) of a folded term found in n of N chunks: BM25's, never
        negative.
        """
        found = self.frequency.get(term, 0)
        return math.log(1 + (self.chunks - found + 0.5) / (found + 0.5))

    @property
    def highest_idf(self) -> float:
        """The idf of a term that stands in one chunk only."""
        return math.log(1 + max(0.0, self.chunks - 0.5) / 1.5) or 1.0

    def is_common(self, term: str) -> bool:
        """Whether a term stands in so many chunks (a tenth, of fifty or more) that it works like
        a function word.
        """
        return self.chunks >= 50 and self.frequency.get(term, 0) > self.chunks / 10

    def is_boilerplate(self, sentence: str) -> bool:
        """Whether a sentence recurs in three or more chunks and in at least one of two thousand."""
        return self.repeated.get(fold(sentence), 0) >= max(3, self.chunks / 2000)


class _Counter:
    def __init__(self) -> None:
        self.chunks = 0
        self.frequency: Counter[str] = Counter()
        self.sentences: Counter[str] = Counter()
        self.capital: Counter[str] = Counter()
        self.small: Counter[str] = Counter()
        self.people: set[str] = set()
        self.long_forms: dict[str, Counter[str]] = {}

    def add(self, text: str) -> None:
        self.chunks += 1
        terms: set[str] = set()
        sentences: set[str] = set()
        for start, end in split_sentences(text):
            sentence = text[start:end]
            sentences.add(fold(sentence))
            tokens = tokenize(sentence)
            for position, token in enumerate(tokens):
                if token.text[-1].isalnum():
                    terms.add(token.folded)
                    self._count_case(token, position, tokens)
            self._find_long_forms(sentence, tokens)
        self.frequency.update(terms)
        self.sentences.update(sentences)

    def _count_case(self, token: Token, position: int, tokens: Sequence[Token]) -> None:
        if not token.text[0].isalpha():
            return
        if not token.is_capital:
            self.small[token.folded] += 1
        elif position > 0 and tokens[position - 1].text[-1].isalnum():
            self.capital[token.folded] += 1
            if tokens[position - 1].folded in GIVEN_NAMES and tokens[position - 1].is_capital:
                self.people.add(token.folded.removesuffix("'s"))

    def _find_long_forms(self, sentence: str, tokens: Sequence[Token]) -> None:
        for match in _SHORT_FORM.finditer(sentence):
            before = [token for token in tokens if token.end <= match.start()]
            found = _spelled_out(match.group(1), before)
            if found is not None and not sentence[found.start : before[-1].end].isupper():
                self.long_forms.setdefault(match.group(1), Counter())[
                    sentence[found.start : before[-1].end]
                ] += 1

    def result(self) -> TermStatistics:
        named = {term for term, count in self.capital.items() if count > self.small[term]}
        return TermStatistics(
            self.chunks,
            self.frequency,
            {sentence: count for sentence, count in self.sentences.items() if count > 1},
            frozenset(named),
            {short: forms.most_common(1)[0][0] for short, forms in self.long_forms.items()},
            frozenset(term for term, count in self.small.items() if count >= self.capital[term]),
            frozenset(self.people - set(self.small)),
        )


def _spelled_out(short: str, before: Sequence[Token]) -> Token | None:
    """The first word of the words before "(ABC)" whose initials give ABC, small words such as
    *of* skipped.
    """
    initials = [letter.casefold() for letter in short.rstrip("s") if letter.isupper()]
    position = len(before) - 1
    for wanted in reversed(initials):
        while (
            position >= 0
            and before[position].folded in ("of", "for", "and", "the", "in", "on", "to")
            and (before[position].folded[0] != wanted)
        ):
            position -= 1
        if position < 0 or before[position].folded[0] != wanted:
            return None
        position -= 1
    if len(initials) > 1:
        return before[position + 1]
    return None
