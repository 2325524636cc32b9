"""Keyword and title-like queries, as users type them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.queries.rules.phrases import Phrase, find_phrases
from engine.queries.rules.salience import Sentence
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import fold, tokenize
from engine.queries.rules.vocabulary import Language

_EXTENSION = re.compile(
    r"\.(?:pdf|docx?|txt|html?|md|rtf|odt|pptx?|xlsx?|eml|msg|epub|csv|xml|json)$", re.IGNORECASE
)
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|[_+]+")


@dataclass(frozen=True, slots=True)
class Topic:
    """A document's title in words, and its phrases, the heaviest first."""

    text: str
    phrases: tuple[Phrase, ...]

    @property
    def name(self) -> str:
        """The heaviest name or code of the title, else its heaviest phrase that is no number,
        else an empty string.
        """
        words = [
            phrase
            for phrase in self.phrases
            if phrase.sort != "number" and not _is_opaque(phrase.text)
        ]
        return next(
            (phrase.text for phrase in words if phrase.sort in ("name", "code")),
            words[0].text if words else "",
        )


def _is_opaque(text: str) -> bool:
    """Whether more than a third of a name is digits, as in a file's number."""
    return 3 * sum(letter.isdigit() for letter in text) > len(text)


def topic_of(title: str, statistics: TermStatistics, language: Language) -> Topic:
    """A title or file name as a topic: extension, underscores and URL escapes removed."""
    text = " ".join(_ESCAPED.sub(" ", _EXTENSION.sub("", title)).split())
    phrases = find_phrases(text, tokenize(text), statistics, language)
    return Topic(text, tuple(sorted(phrases, key=lambda phrase: -phrase.weight)))


def keyword_query(sentence: Sentence, topic: Topic, rng: random.Random) -> str:
    """Two to four phrases of a sentence in text order (two to seven words), half of the time
    without its best one.

    A sentence with a single phrase borrows the topic's name, and so does one in four of the others:
    what is left out must be supplied by the student's understanding.
    """
    phrases = _distinct(sorted(sentence.phrases, key=lambda phrase: -phrase.weight)[:6])
    if len(phrases) > 2 and rng.random() < 0.5:
        phrases.pop(0)
    chosen = rng.sample(phrases[:4], min(len(phrases), rng.choice((2, 2, 3, 3, 4))))
    parts = [phrase.text for phrase in sorted(chosen, key=lambda phrase: phrase.first)]
    if topic.name and (len(parts) < 2 or rng.random() < 0.25) and not _overlap(topic.name, parts):
        parts.insert(0, topic.name)
    while len(parts) > 1 and sum(len(part.split()) for part in parts) > 7:
        parts.pop()
    return " ".join(parts)


def title_query(
    topic: Topic, headings: Sequence[str], sentences: Sequence[Sentence], rng: random.Random
) -> tuple[str, Sentence] | None:
    """A heading or part of the title, with the chunk's most distinctive phrase that the title
    lacks.
    """
    heads = [
        heading.strip()
        for heading in headings
        if 0 < len(heading.split()) <= 8 and fold(heading) != fold(topic.text)
    ]
    if heads and rng.random() < 0.7:
        place = heads[-1]
    else:
        place = _short_title(topic, rng)
    if not place:
        return None
    for sentence in sentences[:3]:
        for phrase in sorted(sentence.phrases, key=lambda phrase: -phrase.weight):
            if phrase.sort != "number" and not _overlap(phrase.text, [place]):
                form = rng.choice(("{0} {1}", "{1} {0}", "{0}: {1}"))
                return form.format(place, phrase.text), sentence
    return None


def _short_title(topic: Topic, rng: random.Random) -> str:
    """The title when it is short, else its one or two heaviest phrases in their order."""
    if 0 < len(topic.text.split()) <= 5:
        return topic.text
    chosen = [phrase for phrase in topic.phrases if phrase.sort != "number"][
        : rng.choice((1, 2, 2))
    ]
    return " ".join(phrase.text for phrase in sorted(chosen, key=lambda phrase: phrase.first))


def _distinct(phrases: Sequence[Phrase]) -> list[Phrase]:
    kept: list[Phrase] = []
    for phrase in phrases:
        if not _overlap(phrase.text, [other.text for other in kept]):
            kept.append(phrase)
    return kept


def _overlap(text: str, others: Sequence[str]) -> bool:
    words = set(fold(text).split())
    return any(
        words <= set(fold(other).split()) or words >= set(fold(other).split()) for other in others
    )
