"""Which sentences of a chunk are worth a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.queries.rules.phrases import Phrase, find_phrases
from engine.queries.rules.sentences import split_sentences
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import Token, tokenize
from engine.queries.rules.vocabulary import Language

MIN_WORDS = 4
MAX_WORDS = 60


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a chunk: `text == chunk.text[start:end]`, its tokens, its phrases and how
    much it says.
    """

    text: str
    start: int
    tokens: tuple[Token, ...]
    phrases: tuple[Phrase, ...]
    score: float

    def best(self, count: int) -> list[Phrase]:
        """The `count` heaviest phrases, in text order."""
        heaviest = sorted(self.phrases, key=lambda phrase: (-phrase.weight, phrase.first))[:count]
        return sorted(heaviest, key=lambda phrase: phrase.first)


def salient_sentences(text: str, statistics: TermStatistics, language: Language) -> list[Sentence]:
    """The sentences of a chunk's text that hold at least one distinctive phrase, best first."""
    found: list[Sentence] = []
    spans = split_sentences(text)
    for order, (start, end) in enumerate(spans):
        if end - start > 1500:
            end = start + 1500
        sentence = text[start:end]
        tokens = tuple(tokenize(sentence))
        words = sum(token.text[-1].isalnum() for token in tokens)
        # where the script writes no spaces
        if sentence.isascii() or " " in sentence:
            least = MIN_WORDS
        else:
            least = 1
        letters = sum(
            letter.isalpha() for letter in sentence
        )  # of rules, dots and cells these are few
        if words < least or letters < len(sentence.replace(" ", "")) / 2 or len(tokens) < 2:
            continue
        phrases = tuple(find_phrases(sentence, tokens, statistics, language))
        if any(phrase.sort != "number" for phrase in phrases):
            score = _score(sentence, tokens, phrases, words, order, statistics, language)
            found.append(Sentence(sentence, start, tokens, phrases, score))
    return sorted(found, key=lambda item: (-item.score, item.start))


def _score(
    sentence: str,
    tokens: Sequence[Token],
    phrases: Sequence[Phrase],
    words: int,
    order: int,
    statistics: TermStatistics,
    language: Language,
) -> float:
    """Sum of the four heaviest phrases, lowered for length, vagueness, speech, position and
    boilerplate.
    """
    score = sum(sorted((phrase.weight for phrase in phrases), reverse=True)[:4])
    if words < MIN_WORDS or words > MAX_WORDS:
        score *= 0.5
    elif words < 8:
        score *= 0.8
    if tokens[0].text[-1].isalnum() or len(tokens) < 2:
        first = tokens[0].folded
    else:
        first = tokens[1].folded
    if first in language.vague:
        score *= 0.6
    if any(token.folded in language.personal for token in tokens):
        score *= 0.6
    if sentence.rstrip().endswith(("?", ":")):
        score *= 0.6
    if statistics.is_boilerplate(sentence):
        score *= 0.2
    return score * (1.1 if order == 0 else 1.0 - min(order, 10) * 0.01)
