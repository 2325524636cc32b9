"""Selection of the sentences of a chunk that are worth a query."""

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
MAX_LENGTH = 1500
"""Number of characters from which a sentence is cut."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a chunk with its tokens and phrases; `text` begins at `start` of the chunk.

    `score`: how much it says.
    """

    text: str
    start: int
    tokens: tuple[Token, ...]
    phrases: tuple[Phrase, ...]
    score: float

    def best(self, count: int) -> list[Phrase]:
        """Return the `count` heaviest phrases, in order of the text."""
        by_weight = sorted(self.phrases, key=lambda phrase: (-phrase.weight, phrase.first))
        return sorted(by_weight[:count], key=lambda phrase: phrase.first)


def salient_sentences(text: str, statistics: TermStatistics, language: Language) -> list[Sentence]:
    """Return the sentences of a text with at least one distinctive phrase, best first."""
    sentences: list[Sentence] = []
    for order, (start, end) in enumerate(split_sentences(text)):
        sentence = text[start : min(end, start + MAX_LENGTH)]
        tokens = tuple(tokenize(sentence))
        words = sum(token.text[-1].isalnum() for token in tokens)
        if not _is_prose(sentence, tokens, words):
            continue
        phrases = tuple(find_phrases(sentence, tokens, statistics, language))
        if any(phrase.sort != "number" for phrase in phrases):
            score = _score(sentence, tokens, phrases, words, order, statistics, language)
            sentences.append(Sentence(sentence, start, tokens, phrases, score))
    return sorted(sentences, key=lambda item: (-item.score, item.start))


def _is_prose(sentence: str, tokens: Sequence[Token], words: int) -> bool:
    """Return whether a sentence has enough words, and mostly letters, unlike cells and rules."""
    is_unspaced = not sentence.isascii() and " " not in sentence
    min_words = 1 if is_unspaced else MIN_WORDS
    if words < min_words or len(tokens) < 2:
        return False
    letters = sum(map(str.isalpha, sentence))
    return letters >= len(sentence.replace(" ", "")) / 2


def _score(
    sentence: str,
    tokens: Sequence[Token],
    phrases: Sequence[Phrase],
    words: int,
    order: int,
    statistics: TermStatistics,
    language: Language,
) -> float:
    """Return the sum of the four heaviest phrases, with penalties.

    There are penalties for length, vagueness, direct speech, position and boilerplate.
    """
    weights = sorted((phrase.weight for phrase in phrases), reverse=True)
    score = sum(weights[:4])
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
    if order == 0:
        return score * 1.1
    return score * (1.0 - min(order, 10) * 0.01)
