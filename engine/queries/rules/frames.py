"""English questions about an event or about two terms, in the words that people ask with."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from engine.queries.rules.clauses import Clause
from engine.queries.rules.noun_phrases import first_noun_phrase, who_word
from engine.queries.rules.phrases import Phrase
from engine.queries.rules.synonyms import inflect_phrase
from engine.queries.rules.verbs import verb_form
from engine.queries.rules.vocabulary import word_set

_EVENT = (
    "What is the impact of {event}?", "What are the implications of {event}?", "What is the significance of {event}?",
    "What were the reasons for {event}?", "What is known about {event}?", "How significant is {event}?",
    "What are the consequences of {event}?", "What is the background of {event}?",
)  # fmt: skip
_AGENT = (
    "What motivated {subject} to {action}?", "What led {subject} to {action}?",
    "What was behind the decision of {subject} to {action}?",
    "What efforts did {subject} make to {action}?",
)  # fmt: skip
_RELATION = (
    "What is the connection between {a} and {b}?", "How is {a} related to {b}?", "What is known about {a} and {b}?",
    "What details are given about {a} and {b}?", "What does {a} have to do with {b}?", "How are {a} and {b} linked?",
)  # fmt: skip
_TOPIC = ("What is known about {a}?", "What are the main points about {a}?", "What are the details of {a}?")
_NO_ACTION = word_set("""
be have seem appear remain belong contain consist mean include know become say claim argue explain note suggest tell
report state believe announce reveal confirm warn add show find indicate conclude think mean expect
""")


def event_questions(clause: Clause, people: frozenset[str], rng: random.Random) -> Iterator[str]:
    """Questions that turn the clause into a noun: *the impact of X introducing Y*, *what led X to introduce Y*."""
    if not clause.verb or clause.verb in _NO_ACTION:
        return
    thing = first_noun_phrase(clause.rest)
    after = clause.rest[len(thing) :].split()
    if not thing or not clause.rest.startswith(thing) or ((after and verb_form(after[0])) or after[:1] == ["to"]):
        return
    yield rng.choice(_EVENT).format(event=f"{clause.subject} {inflect_phrase(clause.verb, 'gerund')} {thing}")
    if who_word(clause.subject, people, clause.insertion) == "who" or clause.subject[:1].isupper():
        yield rng.choice(_AGENT).format(subject=clause.subject, action=f"{clause.verb} {thing}")


def relation_question(phrases: Sequence[Phrase], topic: str, rng: random.Random) -> str | None:
    """A question about two phrases of a sentence, or one and the topic; None when there is nothing to name."""
    names = [phrase.text for phrase in phrases if _can_be_named(phrase)]
    if topic and rng.random() < 0.35 and not any(topic in name or name in topic for name in names):
        names.append(topic)
    if len(names) >= 2:
        first, second = sorted(rng.sample(range(len(names)), 2))
        return rng.choice(_RELATION).format(a=names[first], b=names[second])
    return rng.choice(_TOPIC).format(a=names[0]) if names else None


def _can_be_named(phrase: Phrase) -> bool:
    """Names, codes and terms of two words or more: a lone common word makes no sense between two others."""
    return phrase.text[:1].isalpha() and (
        phrase.sort in ("name", "code") or (phrase.sort == "term" and " " in phrase.text)
    )
