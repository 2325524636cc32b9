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
"""Number of characters at which a sentence is cut."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a chunk with its tokens and phrases."""

    text: str
    start: int
    """Offset of the sentence in the chunk, in characters."""
    tokens: tuple[Token, ...]
    phrases: tuple[Phrase, ...]
    score: float
    """How much the sentence says (see `_score`); the highest is the best source of a query."""

    def heaviest_phrases(self, count: int) -> list[Phrase]:
        """Return the `count` heaviest phrases, in order of the text."""
        by_weight = sorted(self.phrases, key=lambda phrase: (-phrase.weight, phrase.first))
        return sorted(by_weight[:count], key=lambda phrase: phrase.first)


def salient_sentences(
    text: str,
    statistics: TermStatistics,
    language: Language,
) -> list[Sentence]:
    """Return the sentences of a text with at least one distinctive phrase, best first."""
    sentences: list[Sentence] = []
    for position, (start, end) in enumerate(split_sentences(text)):
        sentence = text[start : min(end, start + MAX_LENGTH)]
        tokens = tuple(tokenize(sentence))
        word_count = sum(token.text[-1].isalnum() for token in tokens)
        if not _is_prose(sentence, tokens, word_count):
            continue
        phrases = tuple(find_phrases(sentence, tokens, statistics, language))
        if any(phrase.category != "number" for phrase in phrases):
            score = _score(
                sentence,
                tokens,
                phrases,
                word_count,
                position,
                statistics,
                language,
            )
            sentences.append(Sentence(sentence, start, tokens, phrases, score))
    return sorted(sentences, key=lambda item: (-item.score, item.start))


def _is_prose(
    sentence: str,
    tokens: Sequence[Token],
    word_count: int,
) -> bool:
    """Return whether a sentence has enough words, and mostly letters, unlike cells and rules."""
    # A sentence of a script without spaces, such as Chinese, may count as a single word.
    is_unspaced = not sentence.isascii() and " " not in sentence
    min_words = 1 if is_unspaced else MIN_WORDS
    if word_count < min_words or len(tokens) < 2:
        return False
    letters = sum(map(str.isalpha, sentence))
    return letters >= len(sentence.replace(" ", "")) / 2


def _score(
    sentence: str,
    tokens: Sequence[Token],
    phrases: Sequence[Phrase],
    word_count: int,
    position: int,
    statistics: TermStatistics,
    language: Language,
) -> float:
    """Return how much a sentence says: the weights of its four heaviest phrases, with penalties.

    There are penalties for length, vagueness, direct speech, boilerplate and a late `position`
    (number of the sentence in its chunk).
    """
    weights = sorted((phrase.weight for phrase in phrases), reverse=True)
    score = sum(weights[:4])
    if word_count < MIN_WORDS or word_count > MAX_WORDS:
        score *= 0.5
    elif word_count < 8:
        score *= 0.8
    starts_with_word = tokens[0].text[-1].isalnum() or len(tokens) < 2
    first_word = tokens[0 if starts_with_word else 1].folded
    if first_word in language.vague:
        score *= 0.6
    if any(token.folded in language.personal for token in tokens):
        score *= 0.6
    if sentence.rstrip().endswith(("?", ":")):
        score *= 0.6
    if statistics.is_boilerplate(sentence):
        score *= 0.2
    if position == 0:
        return score * 1.1
    return score * (1.0 - min(position, 10) * 0.01)
