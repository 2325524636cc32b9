"""English verbs and their forms, as far as needed to find the finite verb of a sentence."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from engine.queries.rules.vocabulary import english_words, word_lists

AUXILIARIES = english_words("auxiliaries")
NEGATED = {
    "cannot": "can",
    "can't": "can",
    "won't": "will",
    "isn't": "is",
    "aren't": "are",
    "wasn't": "was",
    "weren't": "were",
    "hasn't": "has",
    "haven't": "have",
    "hadn't": "had",
    "doesn't": "does",
    "don't": "do",
    "didn't": "did",
    "wouldn't": "would",
    "couldn't": "could",
    "shouldn't": "should",
    "mustn't": "must",
}

_LISTS = word_lists("english")
_REGULAR = tuple(_LISTS["verbs"].split())
_DOUBLED = english_words("doubling_verbs")


class VerbForm(NamedTuple):
    """A word read as a verb: its base, and its form (base, third, past, participle, gerund)."""

    base: str
    form: str


def third_person(base: str) -> str:
    """Return the third person: announces, carries, watches."""
    if base == "have":
        return "has"
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def gerund(base: str) -> str:
    """Return the gerund: announcing, making, dropping, lying."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) and base != "be":
        return base[:-1] + "ing"
    if base in _DOUBLED:
        return base + base[-1] + "ing"
    return base + "ing"


def inflect(base: str, form: str) -> str:
    """Return a verb in one of the forms base, third, past, participle, gerund."""
    if form == "third":
        return third_person(base)
    if form == "gerund":
        return gerund(base)
    if form in ("past", "participle"):
        past, participle = _irregular().get(base, (_past(base), _past(base)))
        return past if form == "past" else participle
    return base


def _past(base: str) -> str:
    if base in _DOUBLED:
        return base + base[-1] + "ed"
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


@cache
def _irregular() -> dict[str, tuple[str, str]]:
    entries = (entry.split() for entry in _LISTS["irregular_verbs"].split(";"))
    return {base: (past, participle) for base, past, participle in entries}


@cache
def _forms() -> dict[str, VerbForm]:
    forms: dict[str, VerbForm] = {}
    for base in _REGULAR:
        forms.setdefault(_past(base), VerbForm(base, "past"))
    for base, (past, participle) in _irregular().items():
        forms[participle] = VerbForm(base, "participle")
        forms[past] = VerbForm(base, "past")
    for base in [*_REGULAR, *_irregular()]:
        forms.setdefault(third_person(base), VerbForm(base, "third"))
        forms.setdefault(base, VerbForm(base, "base"))
        forms.setdefault(gerund(base), VerbForm(base, "gerund"))
    for base in _REGULAR:
        if base.endswith("ize"):  # also in British spelling
            for form in ("past", "third", "base", "gerund"):
                spelling = inflect(base, form).replace("iz", "is")
                forms.setdefault(spelling, VerbForm(base[:-3] + "ise", form))
    return forms


def verb_form(word: str) -> VerbForm | None:
    """Return a case-folded word as a form of a known verb; None for other words.

    Ambiguous forms are read as past, both those of past and participle and those of base and past
    (set, cut).
    """
    return _forms().get(word)


def is_participle(word: str) -> bool:
    """Return whether a word can follow *have* or *be* (announced, taken)."""
    verb = verb_form(word)
    if verb is not None and verb.form in ("past", "participle"):
        return True
    return word.endswith("ed") and len(word) > 4
