"""A query in other everyday words than its source's."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache

from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import Token, tokenize
from engine.queries.rules.verbs import AUXILIARIES, inflect, verb_form
from engine.queries.rules.vocabulary import ENGLISH, word_lists, word_set

_BEFORE_BASE = word_set("to will would shall should can could may might must not")
_DETERMINERS = word_set("a an the this that these those its his her their no any some each every")


@cache
def _table(name: str) -> Mapping[str, tuple[str, ...]]:
    entries = (entry.strip().split(" ", 1) for entry in word_lists("english")[name].split(";"))
    return {word: tuple(others.split(",")) for word, others in entries}


def paraphrase(
    text: str,
    statistics: TermStatistics,
    rng: random.Random,
    share: float = 0.6,
    most: int = 3,
    begin: int = 1,
) -> str:
    """`text` with up to `most` everyday words replaced by a synonym, each with probability
    `share`.

    Names, codes, words beside a capitalised word and tokens before `begin` are left alone. An
    abbreviation that the corpus spells out is spelled out, and a spelled-out form shortened, with
    probability one half.
    """
    text = _swap_abbreviation(text, statistics, rng)
    tokens = tokenize(text)
    places = [position for position in range(begin, len(tokens)) if _may_change(tokens, position)]
    rng.shuffle(places)
    present = {token.folded for token in tokens}
    changes: dict[int, str] = {}
    for position in places:
        other = _other_word(tokens, position, rng)
        if (
            len(changes) < most
            and other is not None
            and rng.random() < share
            and other.split()[0] not in present
        ):
            changes[position] = other
    for position in sorted(changes, reverse=True):
        token = tokens[position]
        text = text[: token.start] + changes[position] + text[token.end :]
    return agree(text)


def verb_synonym(base: str, rng: random.Random) -> str:
    """Another verb, or verb and particle, for a base; the base itself when none is known."""
    return rng.choice(_table("verb_synonyms").get(base, (base,)))


def inflect_phrase(phrase: str, form: str) -> str:
    """A verb and its particle with the verb in another form (*turn down*, past: *turned down*)."""
    head, _, tail = phrase.partition(" ")
    return f"{inflect(head, form)} {tail}".strip()


def agree(text: str) -> str:
    """*a* or *an*, as the next word wants."""
    text = re.sub(r"(^A|\ba) (?=[aeio]\w)", r"\1n ", text)
    return re.sub(r"(^A|\ba)n (?=[bcdfgjklmnpqrstvwyz]\w)", r"\1 ", text)


def _other_word(tokens: Sequence[Token], at: int, rng: random.Random) -> str | None:
    """A synonym in the same form: a verb's inflection and a noun's plural are carried over."""
    word = tokens[at].folded
    before = tokens[at - 1].folded
    reading = verb_form(word)
    if (
        reading is not None
        and reading.base in _table("verb_synonyms")
        and _reads_as_verb(reading.form, before)
    ):
        helped = any(token.folded in AUXILIARIES for token in tokens[max(0, at - 6) : at])
        if reading.form == "past" and helped:
            form = "participle"
        else:
            form = reading.form
        return inflect_phrase(verb_synonym(reading.base, rng), form)
    nouns = _table("word_synonyms")
    if word in nouns:
        return rng.choice(nouns[word])
    if word.endswith("s") and word[:-1] in nouns:
        other = rng.choice(nouns[word[:-1]])
        if other.endswith("s") or " " in other:
            return other
        return _plural(other)
    return None


def _reads_as_verb(form: str, before: str) -> bool:
    if form == "base":
        return before in _BEFORE_BASE
    return form not in ("third", "gerund") and before not in _DETERMINERS


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def _may_change(tokens: Sequence[Token], position: int) -> bool:
    token = tokens[position]
    if (
        not token.text.isalpha()
        or token.is_capital
        or len(token.text) < 3
        or token.folded in ENGLISH.function_words
    ):
        return False
    neighbours = [tokens[at] for at in (position - 1, position + 1) if 0 < at < len(tokens)]
    return not any(other.is_capital and other.text[-1].isalnum() for other in neighbours)


def _swap_abbreviation(text: str, statistics: TermStatistics, rng: random.Random) -> str:
    """The first abbreviation or long form in `text` exchanged, or none."""
    words = {token.text for token in tokenize(text)}
    for short, long in statistics.long_forms.items():
        if long in text:
            if rng.random() < 0.5:
                return text
            return text.replace(long, short, 1)
        if short in words:
            if rng.random() < 0.5:
                return text
            return re.sub(rf"(?<![\w-]){re.escape(short)}(?![\w-])", long, text, count=1)
    return text
