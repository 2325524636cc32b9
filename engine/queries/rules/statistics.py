"""Statistics of the corpus: rare words, names, abbreviations and boilerplate."""

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
"""Maximum number of chunks that are read."""
_SMALL_WORDS = (
    "of",
    "for",
    "and",
    "the",
    "in",
    "on",
    "to",
)
# An abbreviation after its long form: "(NASA)", '("R&D")', "(PoWs)"
_SHORT_FORM = re.compile(r"\(\s*[\"“”']?([A-Z][A-Za-z&-]{1,6}[A-Z]s?|[A-Z]{2,7}s?)[\"“”']?\s*\)")


@dataclass(frozen=True)
class TermStatistics:
    """Frequencies of words and sentences, from one pass over the chunks."""

    chunks: int
    """The number of distinct chunks read."""
    frequency: Mapping[str, int]
    """Folded term → number of chunks with it."""
    repeated: Mapping[str, int] = field(default_factory=dict)
    """Folded sentence → number of chunks with it, if two or more."""
    capitalised: frozenset[str] = frozenset()
    """Terms that are mostly capitalised inside sentences."""
    long_forms: Mapping[str, str] = field(default_factory=dict)
    """Abbreviation → the words for which it stands: "NMT" → "neural machine translation"."""
    lower_case: frozenset[str] = frozenset()
    """Terms that are mostly written small."""
    people: frozenset[str] = frozenset()
    """Words that follow a given name: "curie"."""

    @classmethod
    def from_chunks(
        cls, chunks: Sequence[Chunk], sample: int = SAMPLE, check: Callable[[], None] = lambda: None
    ) -> TermStatistics:
        """Count the words and sentences of distinct chunks.

        Of more than `sample` chunks, those with the lowest content hashes are read. `check` is
        called before each chunk, and may raise to end the pass.
        """
        distinct = {chunk.content_hash: chunk for chunk in chunks}
        sampled: Iterable[Chunk] = distinct.values()
        if len(distinct) > sample:
            sampled = heapq.nsmallest(
                sample,
                sampled,
                key=lambda chunk: chunk.content_hash,
            )
        counter = _StatisticsBuilder()
        for chunk in sampled:
            check()
            counter.add(chunk.text)
        return counter.build()

    def idf(self, term: str) -> float:
        """Return BM25's ln(1 + (N − n + ½)/(n + ½)) of a folded term in n of N chunks."""
        frequency = self.frequency.get(term, 0)  # n
        return math.log(1 + (self.chunks - frequency + 0.5) / (frequency + 0.5))

    @property
    def highest_idf(self) -> float:
        """The idf of a term in a single chunk; 1.0 without chunks, to divide by."""
        return math.log(1 + max(0.0, self.chunks - 0.5) / 1.5) or 1.0

    def is_common(self, term: str) -> bool:
        """Return whether a term is as frequent as a function word.

        That is in more than a tenth of the chunks, if there are fifty or more.
        """
        return self.chunks >= 50 and self.frequency.get(term, 0) > self.chunks / 10

    def is_boilerplate(self, sentence: str) -> bool:
        """Return whether a sentence is in at least three chunks, and in at least one of 2,000."""
        return self.repeated.get(fold(sentence), 0) >= max(3, self.chunks / 2000)


class _StatisticsBuilder:
    """Counts words and sentences chunk by chunk.

    `capital_counts`, `lower_counts`: how often a folded word has a capital inside a sentence, or
    none. `long_forms`: abbreviation → its long forms, with their counts.
    """

    def __init__(self) -> None:
        self.chunks = 0
        self.frequency: Counter[str] = Counter()
        self.sentences: Counter[str] = Counter()
        self.capital_counts: Counter[str] = Counter()
        self.lower_counts: Counter[str] = Counter()
        self.people: set[str] = set()
        self.long_forms: dict[str, Counter[str]] = {}

    def add(self, text: str) -> None:
        """Count the text of a chunk."""
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
            self._count_long_forms(sentence, tokens)
        self.frequency.update(terms)
        self.sentences.update(sentences)

    def _count_case(
        self,
        token: Token,
        position: int,
        tokens: Sequence[Token],
    ) -> None:
        """Count whether a word of a sentence has a capital, and note names of persons."""
        if not token.text[0].isalpha():
            return
        if not token.is_capital:
            self.lower_counts[token.folded] += 1
        elif position > 0:
            before = tokens[position - 1]
            # After punctuation, such as a quote or colon, a capital means nothing.
            if before.text[-1].isalnum():
                self.capital_counts[token.folded] += 1
                if before.folded in GIVEN_NAMES and before.is_capital:
                    self.people.add(token.folded.removesuffix("'s"))

    def _count_long_forms(self, sentence: str, tokens: Sequence[Token]) -> None:
        """Count the long form before each abbreviation: the words before "(NMT)"."""
        for match in _SHORT_FORM.finditer(sentence):
            before = [token for token in tokens if token.end <= match.start()]
            short = match.group(1)
            first = _find_first_word(short, before)
            if first is None:
                continue
            long = sentence[first.start : before[-1].end]
            if not long.isupper():
                self.long_forms.setdefault(short, Counter())[long] += 1

    def build(self) -> TermStatistics:
        """Return the statistics of all chunks so far."""
        capitalised = set()
        for term, count in self.capital_counts.items():
            if count > self.lower_counts[term]:
                capitalised.add(term)
        lower_case = set(self.lower_counts) - capitalised
        long_forms = {}
        for short, forms in self.long_forms.items():
            ((most_frequent, _),) = forms.most_common(1)
            long_forms[short] = most_frequent
        return TermStatistics(
            chunks=self.chunks,
            frequency=self.frequency,
            repeated={sentence: count for sentence, count in self.sentences.items() if count > 1},
            capitalised=frozenset(capitalised),
            long_forms=long_forms,
            lower_case=frozenset(lower_case),
            people=frozenset(self.people - set(self.lower_counts)),
        )


def _find_first_word(short: str, before: Sequence[Token]) -> Token | None:
    """Return the word before "(ABC)" with which its long form begins, or None without one.

    The initials of the long form's words are ABC; small words such as *of* are skipped. `short`:
    the abbreviation. `before`: all tokens of the sentence before it.
    """
    initials = [letter.casefold() for letter in short.rstrip("s") if letter.isupper()]
    # From the last initial back to the first.
    position = len(before) - 1
    for initial in reversed(initials):
        while position >= 0 and before[position].folded[0] != initial:
            if before[position].folded not in _SMALL_WORDS:
                return None
            position -= 1
        if position < 0:
            return None
        position -= 1
    if len(initials) > 1:
        return before[position + 1]
    return None
