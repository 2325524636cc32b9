"""Questions from English clauses: subject-auxiliary inversion and a question word for what is
left out, or a fixed frame.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.queries.rules.clauses import DETERMINERS, PREPOSITIONS, Clause
from engine.queries.rules.noun_phrases import first_noun_phrase, what_word, who_word
from engine.queries.rules.phrases import Phrase
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import inflect_phrase
from engine.queries.rules.verbs import is_participle, third_person, verb_form
from engine.queries.rules.vocabulary import english_words, phrases, word_lists, word_set

_EVENT = phrases(word_lists("english")["event_questions"])
_AGENT = phrases(word_lists("english")["agent_questions"])
_RELATION = phrases(word_lists("english")["relation_questions"])
_TOPIC = phrases(word_lists("english")["topic_questions"])
_NO_ACTION = english_words("verbs_without_action")
MAX_WORDS = 24
_MONTH = (
    r"(?:Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|June?|July?|Aug(?:ust|\.)?"
    r"|Sept?(?:ember|\.)?|Oct(?:ober|\.)?|Nov(?:ember|\.)?|Dec(?:ember|\.)?)"
)
_WEEKDAY = r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)"
_DATE = re.compile(
    r"\s*,?\s*\b(?:on|in|by|since|until|during|from|before|after|back in|as"
    r" of)\s+(?:(?:early|late|mid)[- ]?)?"
    rf"(?:{_WEEKDAY}(?:,?\s+{_MONTH}\s+\d{{1,2}})?|\d{{1,2}}\s+{_MONTH}(?:\s+\d{{4}})?|(?:19|20)\d\d"
    rf"|{_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?(?:,?\s+(?:of\s+)?\d{{4}})?)"
    r"(?:\s+of\s+(?:this|last|next)\s+year)?(?=$|[\s,.;]),?"
)
_REASON = re.compile(
    r"\s*,?\s+(?:because(?: of)?|due to|in order to|so that|as a result of|thanks to|owing to)\s.+$"
)
_CONDITION = re.compile(
    r"\s*,?\s+(?:if|unless|provided that|except (?:as|when|if|to the extent)|to the extent"
    r" that)\s.+$"
)
_MANNER = re.compile(r"\s+by\s+\w+ing\s.+$")
_ABOUT = (
    r"^(?:(?:about|around|approximately|nearly|almost|over|more than|up to|at"
    r" least|some|only|just|an extra)\s+)*"
)
_AMOUNT = re.compile(
    _ABOUT + r"(?:[$€£¥]\s?\d[\d.,]*(?:\s?(?:million|billion|trillion|[kmb]n?))?"
    r"|\d[\d.,]*\s?(?:%|percent|per cent))(?=$|\s|,)"
)
_COUNT = re.compile(
    _ABOUT + r"(?:\d[\d.,]*(?:\s(?:million|billion|thousand|hundred))?"
    r"|two|three|four|five|six|seven|eight|nine|ten|dozens of|hundreds of)\s+"
    r"((?!percent|per\b|%|of\b|million|to\b|and\b|or\b)[a-z][\w-]*s)\b"
)
_SAYING = english_words("verbs_of_saying")
_BE_HAVE = ("is", "are", "was", "were", "has", "have")
_REPORTING = word_set("given presented discussed described shown made found used noted reported")
_CUT_BEFORE = (PREPOSITIONS - word_set("of per up down out off to than")) | word_set(
    "and or which that who but because if"
)
_BEFORE_VERB = word_set("not be been being also never only now still already")
_STATIVE = english_words("stative_verbs")


class Question(NamedTuple):
    """A question, what it asks for, and how well the rule behind it works (higher first)."""

    text: str
    asks: str
    merit: float


def questions(clause: Clause, statistics: TermStatistics, rng: random.Random) -> list[Question]:
    """The questions that the rules can make of a clause, best first; empty when none fits."""
    found = [
        question
        for question in _all(clause, statistics.people, rng)
        if 4 <= len(question.text.split()) <= MAX_WORDS
    ]
    return sorted(found, key=lambda question: (-question.merit, question.text))


def _all(clause: Clause, people: frozenset[str], rng: random.Random) -> Iterator[Question]:
    rest = clause.rest
    for pattern, word, asks in (
        (_DATE, "when", "date"),
        (_REASON, "why", "reason"),
        (_CONDITION, "under what conditions", "condition"),
        (_MANNER, "how", "manner"),
    ):
        if pattern.search(rest) and len(pattern.sub("", rest).split()) >= 2 - bool(clause.verb):
            yield _ask(word, clause, pattern.sub("", rest, count=1), asks, 1.0 + rng.random())
    if _DATE.fullmatch(clause.lead) and len(rest.split()) >= 2:
        yield _ask("when", clause, rest, "date", 1.0 + rng.random())
    yield from _about_object(clause, rng)
    for text in event_questions(clause, people, rng):
        yield Question(_finish(text.removesuffix("?")), "event", 1.2 + rng.random())
    yield from _about_subject(clause, people, rng)
    yield from _open(clause, rng)


def _about_object(clause: Clause, rng: random.Random) -> Iterator[Question]:
    verb, complement = _complement(clause)
    merit = 1.0 + rng.random()
    if clause.is_be and not verb:
        if (
            complement.startswith(("a ", "an ", "the ", "one of "))
            and len(clause.subject.split()) <= 6
        ):
            yield Question(
                _finish(f"what {clause.auxiliary} {clause.subject}"), "definition", merit
            )
        return
    if verb:
        base = verb_form(verb.split()[-1])
    else:
        base = None
    if (
        base is not None
        and base.base in _SAYING
        and re.match(r"(?:that\s|how\s|\w+ (?:is|are|was|will|has)\b)", complement)
    ):
        topic = first_noun_phrase(complement.removeprefix("that "))
        if topic:
            yield Question(
                _finish(f"what {clause.auxiliary} {clause.subject} {verb} about {topic}"),
                "speech",
                merit + 0.3,
            )
        return
    amount = _AMOUNT.match(complement)
    if amount:
        left = f"{verb} {complement[amount.end() :].strip(' ,')}"
        yield _ask("how much", clause, left, "amount", merit + 0.3, bare=True)
        return
    count = _COUNT.match(complement)
    if count:
        left = f"{verb} {complement[count.end() :].strip(' ,')}"
        yield _ask(f"how many {count.group(1)}", clause, left, "count", merit + 0.3, bare=True)
        return
    noun = first_noun_phrase(complement)
    if noun and complement.startswith(noun):
        left = complement[len(noun) :].strip(" ,")
        if not re.match(r"(?:and|or|that|which|who)\b", left):
            yield _ask(what_word(noun, rng), clause, f"{verb} {left}", "object", merit, bare=True)


def _about_subject(
    clause: Clause, people: frozenset[str], rng: random.Random
) -> Iterator[Question]:
    rest = shorten(clause.rest)
    if (
        clause.is_be
        and not is_participle(rest.split()[0] if rest.split() else "")
        and len(rest.split()) < 4
    ):
        return
    if len(rest.split()) >= 3:
        if clause.auxiliary == "have" and not clause.verb:
            statement = "has"
        else:
            statement = clause.statement
        statement = {"are": "is", "were": "was", "do": "does"}.get(statement, statement)
        if clause.auxiliary == "do" and clause.verb:
            statement = _singular(clause.statement)
        who = who_word(clause.subject, people, clause.insertion)
        if who != "what" or clause.subject[:1].isupper():
            yield Question(_finish(f"{who} {statement} {rest}"), "subject", 0.6 + rng.random())


def _open(clause: Clause, rng: random.Random) -> Iterator[Question]:
    """How, why, and yes-no: keep the content words and leave the answer open."""
    rest = shorten(clause.rest)
    if (
        clause.verb
        and clause.verb not in _STATIVE
        and clause.verb not in _SAYING
        and len(rest.split()) >= 1
    ):
        yield _ask("how" if rng.random() < 0.7 else "why", clause, rest, "open", 0.6 + rng.random())
    elif not clause.verb and clause.auxiliary in ("can", "could", "may", "must", "shall", "should"):
        if clause.auxiliary == "shall":
            word = "must"
        else:
            word = clause.auxiliary
        yield Question(_finish(f"{word} {clause.subject} {rest}"), "polar", 0.9 + rng.random())
        if rest:
            first = rest.split()[0]
        else:
            first = ""
        if verb_form(first) is not None and first != "be":
            yield Question(
                _finish(f"how {word} {clause.subject} {rest}"), "open", 0.5 + rng.random()
            )
    elif clause.auxiliary in _BE_HAVE and rest and _tells_event(rest.split()[0]):
        yield _ask("how" if rng.random() < 0.5 else "why", clause, rest, "open", 0.4 + rng.random())
    yield _ask("", clause, rest, "polar", 0.2 + rng.random() * 0.5)


def _tells_event(word: str) -> bool:
    return is_participle(word) and word not in _REPORTING


def _ask(
    word: str, clause: Clause, rest: str, asks: str, merit: float, bare: bool = False
) -> Question:
    """`word auxiliary subject verb rest?`; `bare`: the verb stands in `rest` already."""
    verb = "" if bare else clause.verb
    return Question(
        _finish(" ".join((word, clause.auxiliary, clause.subject, verb, shorten(rest)))),
        asks,
        merit,
    )


def _finish(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:-–—")
    text = re.sub(r"\s+([,.;:])", r"\1", text)
    return text[:1].upper() + text[1:] + "?"


def shorten(rest: str, most: int = 14) -> str:
    """About `most` words, cut before a preposition or conjunction or after a comma; uncut
    without such a place.
    """
    words = rest.split()
    if len(words) <= most:
        return rest
    places = [at for at in range(4, min(len(words), most + 8)) if _may_cut(words, at)]
    fitting = [at for at in places if at <= most]
    if not places:
        return rest
    return " ".join(words[: fitting[-1] if fitting else places[0]]).strip(" ,")


def _may_cut(words: list[str], at: int) -> bool:
    if words[at - 1].endswith(","):
        return True
    if words[at - 1].casefold() in PREPOSITIONS | DETERMINERS or words[at - 1].endswith("ing"):
        return False
    return words[at].casefold() in _CUT_BEFORE


def _complement(clause: Clause) -> tuple[str, str]:
    """The verb to repeat after the subject (with adverbs and *been*), and what follows it."""
    if clause.verb:
        return clause.verb, clause.rest
    words = clause.rest.split()
    for at, word in enumerate(words[:5]):
        folded = word.casefold()
        if folded in _BEFORE_VERB or folded.endswith("ly"):
            continue
        reading = verb_form(folded)
        helper_be = clause.auxiliary in ("is", "are", "was", "were")
        if (
            (is_participle(folded) or reading is not None)
            and not (helper_be and is_participle(folded))
        ) or folded.endswith("ing"):
            return " ".join(words[: at + 1]), " ".join(words[at + 1 :])
        break
    return "", clause.rest if clause.is_be else ""


def _singular(word: str) -> str:
    reading = verb_form(word.casefold())
    if reading is not None and reading.form == "base":
        return third_person(reading.base)
    return word


def event_questions(clause: Clause, people: frozenset[str], rng: random.Random) -> Iterator[str]:
    """Questions that turn the clause into a noun: *the impact of X introducing Y*, *what led X
    to introduce Y*.
    """
    if not clause.verb or clause.verb in _NO_ACTION:
        return
    thing = first_noun_phrase(clause.rest)
    after = clause.rest[len(thing) :].split()
    if (
        not thing
        or not clause.rest.startswith(thing)
        or ((after and verb_form(after[0])) or after[:1] == ["to"])
    ):
        return
    yield rng.choice(_EVENT).format(
        event=f"{clause.subject} {inflect_phrase(clause.verb, 'gerund')} {thing}"
    )
    if who_word(clause.subject, people, clause.insertion) == "who" or clause.subject[:1].isupper():
        yield rng.choice(_AGENT).format(subject=clause.subject, action=f"{clause.verb} {thing}")


def relation_question(phrases: Sequence[Phrase], topic: str, rng: random.Random) -> str | None:
    """A question about two phrases of a sentence, or one and the topic; None when there is
    nothing to name.
    """
    names = [phrase.text for phrase in phrases if _can_be_named(phrase)]
    if topic and rng.random() < 0.35 and not any(topic in name or name in topic for name in names):
        names.append(topic)
    if len(names) >= 2:
        first, second = sorted(rng.sample(range(len(names)), 2))
        return rng.choice(_RELATION).format(a=names[first], b=names[second])
    if names:
        return rng.choice(_TOPIC).format(a=names[0])
    return None


def _can_be_named(phrase: Phrase) -> bool:
    """Names, codes and terms of two words or more: a lone common word makes no sense between two
    others.
    """
    return phrase.text[:1].isalpha() and (
        phrase.sort in ("name", "code") or (phrase.sort == "term" and " " in phrase.text)
    )
