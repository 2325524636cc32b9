"""Generalisation of queries, so that not every rare word gives their source away."""

from __future__ import annotations

import random

from engine.queries.rules.phrases import Phrase, find_phrases
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import correct_articles
from engine.queries.rules.tokens import tokenize
from engine.queries.rules.vocabulary import Language

_MIN_HEAD_IDF = 0.45
"""Share of the highest idf above which a term's last word is specific enough on its own."""


def generalise(
    text: str,
    statistics: TermStatistics,
    language: Language,
    rng: random.Random,
    share: float = 0.5,
    first_token: int = 0,
) -> str:
    """Shorten phrases of two or more words to their heads, each with probability `share`.

    A term keeps its last word (*recent funding round* → *round*), or its last two if that word is
    too common. A person keeps the surname. Names of places, products and organisations stay whole,
    and so do codes. Tokens before `first_token` are left alone.
    """
    tokens = tokenize(text)
    # From the end, so that the positions of the phrases before stay valid.
    for phrase in reversed(find_phrases(text, tokens, statistics, language)):
        is_single = phrase.end - phrase.first < 2
        if phrase.first < first_token or is_single or rng.random() >= share:
            continue
        head = phrase.end - _count_head_words(phrase, statistics)
        start = tokens[phrase.first].start
        end = tokens[head].start
        if not any(mark in text[start:end] for mark in "-'’"):
            text = text[:start] + text[end:]
            tokens = tokens[: phrase.first] + tokens[head:]
    return correct_articles(text)


def _count_head_words(phrase: Phrase, statistics: TermStatistics) -> int:
    """Return how many words at the end of a phrase stay; all of them if it cannot be shortened."""
    length = phrase.end - phrase.first
    words = phrase.text.split()
    head = words[-1].casefold()
    if phrase.category == "name":
        is_person = head.removesuffix("'s") in statistics.people
        return 1 if is_person and len(words) == 2 else length
    if phrase.category != "term" or any(map(str.isdigit, phrase.text)):
        return length
    if statistics.idf(head) > _MIN_HEAD_IDF * statistics.highest_idf:
        return 1
    return min(2, length)
