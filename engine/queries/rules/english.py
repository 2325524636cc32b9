"""Questions from English clauses, by inversion and a question word, or by fixed templates."""

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
_MODAL = ("can", "could", "may", "must", "shall", "should")
_REPORTING = word_set("given presented discussed described shown made found used noted reported")
_CUT_BEFORE = (PREPOSITIONS - word_set("of per up down out off to than")) | word_set(
    "and or which that who but because if"
)
_NO_CUT_AFTER = PREPOSITIONS | DETERMINERS
_BEFORE_VERB = word_set("not be been being also never only now still already")
_STATIVE = english_words("stative_verbs")


class Question(NamedTuple):
    """A question, what it asks for, and how well the rule behind it works (higher first)."""

    text: str
    asks: str
    merit: float


def questions(clause: Clause, statistics: TermStatistics, rng: random.Random) -> list[Question]:
    """Return the questions that the rules can make from a clause, best first."""
    fitting = []
    for question in _make_questions(clause, statistics.people, rng):
        if 4 <= len(question.text.split()) <= MAX_WORDS:
            fitting.append(question)
    return sorted(fitting, key=lambda question: (-question.merit, question.text))


def _make_questions(
    clause: Clause, people: frozenset[str], rng: random.Random
) -> Iterator[Question]:
    rest = clause.rest
    for pattern, word, asks in (
        (_DATE, "when", "date"),
        (_REASON, "why", "reason"),
        (_CONDITION, "under what conditions", "condition"),
        (_MANNER, "how", "manner"),
    ):
        min_words = 1 if clause.verb else 2
        if pattern.search(rest) and len(pattern.sub("", rest).split()) >= min_words:
            left = pattern.sub("", rest, count=1)
            yield _ask(word, clause, left, asks, 1.0 + rng.random())
    if _DATE.fullmatch(clause.lead) and len(rest.split()) >= 2:
        yield _ask("when", clause, rest, "date", 1.0 + rng.random())
    yield from _ask_about_object(clause, rng)
    for text in event_questions(clause, people, rng):
        yield Question(_finish(text.removesuffix("?")), "event", 1.2 + rng.random())
    yield from _ask_about_subject(clause, people, rng)
    yield from _ask_openly(clause, rng)


def _ask_about_object(clause: Clause, rng: random.Random) -> Iterator[Question]:
    verb, complement = _split_complement(clause)
    merit = 1.0 + rng.random()
    if clause.is_be and not verb:
        is_definition = complement.startswith(("a ", "an ", "the ", "one of "))
        if is_definition and len(clause.subject.split()) <= 6:
            text = _finish(f"what {clause.auxiliary} {clause.subject}")
            yield Question(text, "definition", merit)
        return
    if verb and _is_speech(verb, complement):
        topic = first_noun_phrase(complement.removeprefix("that "))
        if topic:
            text = _finish(f"what {clause.auxiliary} {clause.subject} {verb} about {topic}")
            yield Question(text, "speech", merit + 0.3)
        return
    amount = _AMOUNT.match(complement)
    if amount:
        left = f"{verb} {complement[amount.end() :].strip(' ,')}"
        yield _ask("how much", clause, left, "amount", merit + 0.3, bare=True)
        return
    count = _COUNT.match(complement)
    if count:
        left = f"{verb} {complement[count.end() :].strip(' ,')}"
        word = f"how many {count[1]}"
        yield _ask(word, clause, left, "count", merit + 0.3, bare=True)
        return
    noun = first_noun_phrase(complement)
    if noun and complement.startswith(noun):
        left = complement[len(noun) :].strip(" ,")
        if not re.match(r"(?:and|or|that|which|who)\b", left):
            word = what_word(noun, rng)
            yield _ask(word, clause, f"{verb} {left}", "object", merit, bare=True)


def _ask_about_subject(
    clause: Clause, people: frozenset[str], rng: random.Random
) -> Iterator[Question]:
    rest = shorten(clause.rest)
    words = rest.split()
    if len(words) < 3:
        return
    if clause.is_be and len(words) < 4 and not is_participle(words[0]):
        return
    who = who_word(clause.subject, people, clause.insertion)
    if who != "what" or clause.subject[:1].isupper():
        statement = _make_singular_statement(clause)
        text = _finish(f"{who} {statement} {rest}")
        yield Question(text, "subject", 0.6 + rng.random())


def _is_speech(verb: str, complement: str) -> bool:
    """Return whether a verb of saying has a clause as its complement."""
    reading = verb_form(verb.split()[-1])
    if reading is None or reading.base not in _SAYING:
        return False
    return re.match(r"(?:that\s|how\s|\w+ (?:is|are|was|will|has)\b)", complement) is not None


def _make_singular_statement(clause: Clause) -> str:
    """Return the finite verb of a clause in the singular, as after *who*."""
    if clause.auxiliary == "do" and clause.verb:
        return _make_singular(clause.statement)
    if clause.auxiliary == "have" and not clause.verb:
        return "has"
    return {"are": "is", "were": "was", "do": "does"}.get(clause.statement, clause.statement)


def _ask_openly(clause: Clause, rng: random.Random) -> Iterator[Question]:
    """Yield questions with how and why, and yes-no questions, which keep the content words."""
    rest = shorten(clause.rest)
    is_action = clause.verb not in _STATIVE and clause.verb not in _SAYING
    if clause.verb and is_action and rest.split():
        word = "how" if rng.random() < 0.7 else "why"
        yield _ask(word, clause, rest, "open", 0.6 + rng.random())
    elif not clause.verb and clause.auxiliary in _MODAL:
        yield from _ask_with_modal(clause, rest, rng)
    elif clause.auxiliary in _BE_HAVE and rest and _names_event(rest.split()[0]):
        word = "how" if rng.random() < 0.5 else "why"
        yield _ask(word, clause, rest, "open", 0.4 + rng.random())
    yield _ask("", clause, rest, "polar", 0.2 + rng.random() * 0.5)


def _ask_with_modal(clause: Clause, rest: str, rng: random.Random) -> Iterator[Question]:
    """Yield questions such as *can X swim* and *how can X swim*."""
    word = "must" if clause.auxiliary == "shall" else clause.auxiliary
    text = _finish(f"{word} {clause.subject} {rest}")
    yield Question(text, "polar", 0.9 + rng.random())
    first = rest.split()[0] if rest else ""
    if verb_form(first) is not None and first != "be":
        text = _finish(f"how {word} {clause.subject} {rest}")
        yield Question(text, "open", 0.5 + rng.random())


def _names_event(word: str) -> bool:
    return is_participle(word) and word not in _REPORTING


def _ask(
    word: str, clause: Clause, rest: str, asks: str, merit: float, bare: bool = False
) -> Question:
    """Return the question `word auxiliary subject verb rest?`.

    `bare`: `rest` contains the verb already.
    """
    verb = "" if bare else clause.verb
    text = " ".join((word, clause.auxiliary, clause.subject, verb, shorten(rest)))
    return Question(_finish(text), asks, merit)


def _finish(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:-–—")
    text = re.sub(r"\s+([,.;:])", r"\1", text)
    return text[:1].upper() + text[1:] + "?"


def shorten(rest: str, most: int = 14) -> str:
    """Return about `most` words, cut before a preposition or conjunction or after a comma.

    Without such a place, the text is returned whole.
    """
    words = rest.split()
    if len(words) <= most:
        return rest
    end = min(len(words), most + 8)
    cuts = [cut for cut in range(4, end) if _may_cut(words, cut)]
    if not cuts:
        return rest
    fitting = [cut for cut in cuts if cut <= most]
    cut = fitting[-1] if fitting else cuts[0]
    return " ".join(words[:cut]).strip(" ,")


def _may_cut(words: list[str], at: int) -> bool:
    before = words[at - 1]
    if before.endswith(","):
        return True
    if before.endswith("ing") or before.casefold() in _NO_CUT_AFTER:
        return False
    return words[at].casefold() in _CUT_BEFORE


def _split_complement(clause: Clause) -> tuple[str, str]:
    """Return the verb to repeat after the subject, with adverbs and *been*, and its complement."""
    if clause.verb:
        return clause.verb, clause.rest
    words = clause.rest.split()
    for at, word in enumerate(words[:5]):
        folded = word.casefold()
        if folded in _BEFORE_VERB or folded.endswith("ly"):
            continue
        is_passive = clause.is_be and is_participle(folded)
        is_verb = is_participle(folded) or verb_form(folded) is not None
        if folded.endswith("ing") or (is_verb and not is_passive):
            following = at + 1
            return " ".join(words[:following]), " ".join(words[following:])
        break
    return "", clause.rest if clause.is_be else ""


def _make_singular(word: str) -> str:
    reading = verb_form(word.casefold())
    if reading is not None and reading.form == "base":
        return third_person(reading.base)
    return word


def event_questions(clause: Clause, people: frozenset[str], rng: random.Random) -> Iterator[str]:
    """Yield questions about a clause as an event, such as *the impact of X introducing Y*."""
    if not clause.verb or clause.verb in _NO_ACTION:
        return
    noun = first_noun_phrase(clause.rest)
    if not noun or not clause.rest.startswith(noun):
        return
    after = clause.rest[len(noun) :].split()
    if after and (after[0] == "to" or verb_form(after[0])):
        return
    event = f"{clause.subject} {inflect_phrase(clause.verb, 'gerund')} {noun}"
    yield rng.choice(_EVENT).format(event=event)
    is_person = who_word(clause.subject, people, clause.insertion) == "who"
    if is_person or clause.subject[:1].isupper():
        action = f"{clause.verb} {noun}"
        yield rng.choice(_AGENT).format(subject=clause.subject, action=action)


def relation_question(phrases: Sequence[Phrase], topic: str, rng: random.Random) -> str | None:
    """Return a question about two phrases of a sentence, or about one and the topic.

    None if there is nothing to name.
    """
    names = [phrase.text for phrase in phrases if _can_be_named(phrase)]
    if topic and rng.random() < 0.35:
        is_named = any(topic in name or name in topic for name in names)
        if not is_named:
            names.append(topic)
    if len(names) >= 2:
        first, second = sorted(rng.sample(range(len(names)), 2))
        return rng.choice(_RELATION).format(a=names[first], b=names[second])
    if names:
        return rng.choice(_TOPIC).format(a=names[0])
    return None


def _can_be_named(phrase: Phrase) -> bool:
    """Return whether a phrase makes sense alone: a name, a code, or a term of several words."""
    if not phrase.text[:1].isalpha():
        return False
    if phrase.sort == "term":
        return " " in phrase.text
    return phrase.sort in ("name", "code")
