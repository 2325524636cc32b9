"""Keyword and title queries, as users type them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.queries.rules.phrases import Phrase, find_phrases, is_participle
from engine.queries.rules.salience import Sentence
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import fold, tokenize
from engine.queries.rules.vocabulary import Language

# The extension of a file name: ".pdf", ".docx"
_EXTENSION = re.compile(
    r"\.(?:pdf|docx?|txt|html?|md|rtf|odt|pptx?|xlsx?|eml|msg|epub|csv|xml|json)$", re.IGNORECASE
)
# What stands for a space in a file name or URL: "%20", "_", "+"
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|[_+]+")


@dataclass(frozen=True, slots=True)
class Topic:
    """The words of a document's title, and its phrases by descending weight."""

    text: str
    phrases: tuple[Phrase, ...]

    @property
    def name(self) -> str:
        """The heaviest name or code of the title, or else its heaviest phrase; may be empty."""
        heaviest = ""
        for phrase in self.phrases:
            if phrase.category == "number" or _is_mostly_digits(phrase.text):
                continue
            if phrase.category in ("name", "code"):
                return phrase.text
            heaviest = heaviest or phrase.text
        return heaviest


def _is_mostly_digits(text: str) -> bool:
    """Return whether more than a third of a name is digits, as in a file's number."""
    return 3 * sum(map(str.isdigit, text)) > len(text)


def topic_of(
    title: str,
    statistics: TermStatistics,
    language: Language,
) -> Topic:
    """Return a title or file name as a topic, without extension, underscores and URL escapes."""
    text = " ".join(_ESCAPED.sub(" ", _EXTENSION.sub("", title)).split())
    phrases = find_phrases(
        text,
        tokenize(text),
        statistics,
        language,
    )
    return Topic(text, tuple(sorted(phrases, key=lambda phrase: -phrase.weight)))


def keyword_query(
    sentence: Sentence,
    topic: Topic,
    rng: random.Random,
) -> str:
    """Return up to four phrases of a sentence, in order of the text and of seven words at most.

    Of three phrases or more, the heaviest is left out half of the time, so that an encoder must
    learn what it means. The topic's name is put before a query of one phrase, and before a quarter
    of the others.
    """
    by_weight = sorted(sentence.phrases, key=lambda phrase: -phrase.weight)
    phrases = _select_distinct(by_weight[:6])
    if len(phrases) > 2 and rng.random() < 0.5:
        phrases.pop(0)
    count = min(len(phrases), rng.choice((2, 2, 3, 3, 4)))
    chosen = rng.sample(phrases[:4], count)
    parts = _sort_texts(chosen)
    may_name_topic = topic.name and (len(parts) < 2 or rng.random() < 0.25)
    if may_name_topic and not _overlap(topic.name, parts):
        parts.insert(0, topic.name)
    while len(parts) > 1 and len(" ".join(parts).split()) > 7:
        parts.pop()
    return " ".join(parts)


def nameable_phrases(phrases: Iterable[Phrase]) -> list[Phrase]:
    """Return the three most distinctive things that an English sentence names, in its order.

    Names, codes and terms of several words come before single words.
    """

    def rank(phrase: Phrase) -> tuple[bool, float]:
        is_single_word = phrase.category == "term" and " " not in phrase.text
        return is_single_word, -phrase.weight

    candidates = []
    for phrase in sorted(phrases, key=rank):
        if phrase.text[:1].isalpha() and not is_participle(fold(phrase.text)):
            candidates.append(phrase)
    return sorted(_select_distinct(candidates)[:3], key=lambda phrase: phrase.first)


def title_query(
    topic: Topic, headings: Sequence[str], sentences: Sequence[Sentence], rng: random.Random
) -> tuple[str, Sentence] | None:
    """Return a query such as "Installation: pump pressure", and the sentence of its phrase.

    A heading or part of the title is combined with the most distinctive phrase that it lacks, from
    the best three of `sentences`. None if there is no title or no such phrase.
    """
    short_headings = []
    for heading in headings:
        is_short = 0 < len(heading.split()) <= 8
        if is_short and fold(heading) != fold(topic.text):
            short_headings.append(heading.strip())
    if short_headings and rng.random() < 0.7:
        title = short_headings[-1]
    else:
        title = _shorten_title(topic, rng)
    if not title:
        return None
    for sentence in sentences[:3]:
        for phrase in sorted(sentence.phrases, key=lambda phrase: -phrase.weight):
            if phrase.category != "number" and not _overlap(phrase.text, [title]):
                form = rng.choice(("{0} {1}", "{1} {0}", "{0}: {1}"))
                return form.format(title, phrase.text), sentence
    return None


def _shorten_title(topic: Topic, rng: random.Random) -> str:
    """Return a short title whole, otherwise its one or two heaviest phrases in order."""
    if 0 < len(topic.text.split()) <= 5:
        return topic.text
    phrases = [phrase for phrase in topic.phrases if phrase.category != "number"]
    heaviest = phrases[: rng.choice((1, 2, 2))]
    return " ".join(_sort_texts(heaviest))


def _sort_texts(phrases: Iterable[Phrase]) -> list[str]:
    """Return the texts of phrases in order of the text that they are from."""
    ordered = sorted(phrases, key=lambda phrase: phrase.first)
    return [phrase.text for phrase in ordered]


def _select_distinct(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Return the phrases that do not overlap with earlier ones."""
    kept: list[Phrase] = []
    for phrase in phrases:
        if not _overlap(phrase.text, [other.text for other in kept]):
            kept.append(phrase)
    return kept


def _overlap(text: str, others: Sequence[str]) -> bool:
    """Return whether the words of a text include those of another one, or the reverse."""
    words = set(fold(text).split())
    for other in others:
        other_words = set(fold(other).split())
        if words <= other_words or words >= other_words:
            return True
    return False
