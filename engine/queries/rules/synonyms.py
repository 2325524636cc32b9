"""Paraphrasing of queries with everyday words other than those of their source."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache

from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import Token, tokenize
from engine.queries.rules.vocabulary import ENGLISH, word_lists, word_set

_MAX_CHANGES = 3
_BEFORE_BASE = word_set("to will would shall should can could may might must not")
_DETERMINERS = word_set("a an the this that these those its his her their no any some each every")


@cache
def _read_synonyms(name: str) -> Mapping[str, tuple[str, ...]]:
    """Read a list of words with their synonyms: `word other,other; word other`."""
    synonyms = {}
    for entry in word_lists("english")[name].split(";"):
        word, others = entry.strip().split(" ", 1)
        synonyms[word] = tuple(others.split(","))
    return synonyms


def paraphrase(
    text: str,
    statistics: TermStatistics,
    rng: random.Random,
    share: float = 0.6,
    first_token: int = 1,
) -> str:
    """Replace up to three everyday words by synonyms, each with probability `share`.

    Names, codes, neighbours of capitalised words and tokens before `first_token` are left alone.
    With probability one half, an abbreviation is spelled out as in the corpus, or the reverse.
    """
    text = _swap_abbreviation(text, statistics, rng)
    tokens = tokenize(text)
    later = range(first_token, len(tokens))
    positions = [position for position in later if _is_replaceable(tokens, position)]
    rng.shuffle(positions)
    present = {token.folded for token in tokens}
    changes: dict[int, str] = {}  # position of a token → its synonym
    for position in positions:
        synonym = _find_synonym(tokens, position, rng)
        if synonym is None or len(changes) >= _MAX_CHANGES:
            continue
        if rng.random() < share and synonym.split()[0] not in present:
            changes[position] = synonym
    # From the end, so that the offsets of the tokens before stay valid.
    for position in sorted(changes, reverse=True):
        token = tokens[position]
        text = text[: token.start] + changes[position] + text[token.end :]
    return correct_articles(text)


def correct_articles(text: str) -> str:
    """Correct *a* and *an* by the next word's first letter; *u* and *h* may have either."""
    text = re.sub(r"(^A|\ba) (?=[aeio]\w)", r"\1n ", text)
    return re.sub(r"(^A|\ba)n (?=[bcdfgjklmnpqrstvwyz]\w)", r"\1 ", text)


def _find_synonym(
    tokens: Sequence[Token],
    position: int,
    rng: random.Random,
) -> str | None:
    """Return a synonym in the same form; nouns are put into the plural."""
    word = tokens[position].folded
    before = tokens[position - 1].folded
    verbs = _read_synonyms("verb_synonyms")
    if word in verbs and before in _BEFORE_BASE:
        return rng.choice(verbs[word])
    past_forms = _read_synonyms("past_synonyms")
    if word in past_forms and before not in _DETERMINERS:
        return rng.choice(past_forms[word])
    nouns = _read_synonyms("word_synonyms")
    if word in nouns:
        return rng.choice(nouns[word])
    if word.endswith("s") and word[:-1] in nouns:
        synonym = rng.choice(nouns[word[:-1]])
        if synonym.endswith("s") or " " in synonym:
            return synonym
        return _make_plural(synonym)
    return None


def _make_plural(word: str) -> str:
    """Return the regular plural of an English noun: "study" → "studies"."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    if word.endswith(("s", "x", "ch", "sh")):
        return f"{word}es"
    return f"{word}s"


def _is_replaceable(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a token is an everyday word without a capitalised neighbour."""
    token = tokens[position]
    if not token.text.isalpha() or token.is_capital or len(token.text) < 3:
        return False
    if token.folded in ENGLISH.function_words:
        return False
    for neighbour in (position - 1, position + 1):
        if 0 < neighbour < len(tokens):
            other = tokens[neighbour]
            if other.is_capital and other.text[-1].isalnum():
                return False
    return True


def _swap_abbreviation(
    text: str,
    statistics: TermStatistics,
    rng: random.Random,
) -> str:
    """Replace the first abbreviation by its long form, or the reverse, half of the time."""
    words = {token.text for token in tokenize(text)}
    for short, long in statistics.long_forms.items():
        if long in text:
            if rng.random() < 0.5:
                return text
            return text.replace(long, short, 1)
        if short in words:
            if rng.random() < 0.5:
                return text
            return re.sub(
                rf"(?<![\w-]){re.escape(short)}(?![\w-])",
                long,
                text,
                count=1,
            )
    return text
