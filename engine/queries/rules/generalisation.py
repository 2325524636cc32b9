"""Generalisation of queries, so that not every rare word gives their source away."""

from __future__ import annotations

import random

from engine.queries.rules.phrases import Phrase, find_phrases
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import agree
from engine.queries.rules.tokens import tokenize
from engine.queries.rules.vocabulary import Language


def generalise(
    text: str,
    statistics: TermStatistics,
    language: Language,
    rng: random.Random,
    share: float = 0.5,
    begin: int = 0,
) -> str:
    """Shorten phrases of two or more words to their heads, each with probability `share`.

    A term keeps its last word (*recent funding round* → *round*, unless the head is too common), a
    person the surname. Names of places, products and organisations stay whole, and so do codes.
    Tokens before `begin` are left alone.
    """
    tokens = tokenize(text)
    for phrase in reversed(find_phrases(text, tokens, statistics, language)):
        is_single = phrase.last - phrase.first < 2
        if phrase.first < begin or is_single or rng.random() >= share:
            continue
        head = phrase.last - _count_kept_words(phrase, statistics)
        start = tokens[phrase.first].start
        end = tokens[head].start
        if not any(mark in text[start:end] for mark in "-'’"):
            text = text[:start] + text[end:]
            tokens = tokens[: phrase.first] + tokens[head:]
    return agree(text)


def _count_kept_words(phrase: Phrase, statistics: TermStatistics) -> int:
    """Return how many words of a phrase stay, counted from its end."""
    words = phrase.text.split()
    if phrase.sort == "name":
        person = words[-1].casefold().removesuffix("'s") in statistics.people
        if person and len(words) == 2:
            return 1
        return phrase.last - phrase.first
    if phrase.sort != "term" or any(map(str.isdigit, phrase.text)):
        return phrase.last - phrase.first
    head = words[-1].casefold()
    if statistics.idf(head) > 0.45 * statistics.highest_idf:
        return 1
    return min(2, phrase.last - phrase.first)
