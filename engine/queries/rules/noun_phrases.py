"""English noun phrases: their ends, and the question words that replace them."""

from __future__ import annotations

import random

from engine.queries.rules.clauses import DETERMINERS, PREPOSITIONS
from engine.queries.rules.tokens import tokenize
from engine.queries.rules.verbs import AUXILIARIES, verb_form
from engine.queries.rules.vocabulary import GIVEN_NAMES, english_words, word_set

MAX_WORDS = 9
_STOPS = word_set("which who where when or but if because not how what while whether so than as")
_PRONOUNS = english_words("pronouns")
_PEOPLE = english_words("roles")
_LOOSE_ENDS = DETERMINERS | PREPOSITIONS | word_set("and or")


def first_noun_phrase(text: str) -> str:
    """Return the words before the first preposition (except *of*), verb, conjunction or mark."""
    end = 0
    count = 0
    for token in tokenize(text):
        folded = token.folded
        if not token.text[-1].isalnum():
            if token.text in ("%", "'", "’"):
                continue
            break
        if folded in _STOPS or (folded == "that" and count):
            break
        if folded in PREPOSITIONS and not (folded == "of" and count):
            break
        if (folded == "and" and not 0 < count <= 3) or (count and folded in _PRONOUNS):
            break
        if count == 0 and folded in _PRONOUNS:
            return ""
        if count and _is_verb(folded, count) and not token.is_capital:
            break
        end = token.end
        count += 1
        if count == MAX_WORDS:
            break
    words = text[:end].split()
    while words and words[-1].casefold() in _LOOSE_ENDS:
        words.pop()
    return " ".join(words)


def _is_verb(word: str, count: int) -> bool:
    """Return whether a word is a verb after `count` words of a noun phrase."""
    if word in AUXILIARIES:
        return True
    reading = verb_form(word)
    if reading is None:
        return False
    return reading.form == "participle" or (count > 1 and reading.form in ("past", "third"))


def what_word(noun: str, rng: random.Random) -> str:
    """Return *what*, or *what* or *which* with the head of a plural noun phrase."""
    head_part = noun.partition(" of ")[0]
    words = [word for word in head_part.split() if word.casefold() not in DETERMINERS]
    head = words[-1] if words else ""
    if is_plural(head) and head.islower() and len(words) > 1:
        return rng.choice((f"what {head}", f"which {head}", "what"))
    return "what"


def who_word(subject: str, people: frozenset[str], insertion: str = "") -> str:
    """Return *who* for a person, *which HEAD* for a described thing, otherwise *what*."""
    words = _find_head_part(subject)
    folded = [word.casefold().strip(".,") for word in words]
    if not folded:
        return "what"
    head = folded[-1]
    if folded[0] in GIVEN_NAMES or head in people:
        return "who"
    if _PEOPLE & {*folded, *insertion.casefold().split()}:
        return "who"
    is_described = folded[0] in DETERMINERS and len(words) > 2
    is_common_noun = words[-1].islower() and head.isalpha()
    if is_described and is_common_noun and not is_plural(head):
        return f"which {head}"
    return "what"


def _find_head_part(phrase: str) -> list[str]:
    words: list[str] = []
    for word in phrase.split():
        if word.casefold() in PREPOSITIONS and words:
            break
        words.append(word)
    return words


def is_plural(word: str) -> bool:
    """Return whether a noun looks plural."""
    if len(word) < 4 or not word.endswith("s"):
        return False
    return not word.endswith(("ss", "us", "is", "'s", "ics"))
