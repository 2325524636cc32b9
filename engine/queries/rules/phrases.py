"""Distinctive phrases of sentences: names, codes, numbers and terms of several words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import Token, is_unspaced_function
from engine.queries.rules.vocabulary import Language, english_words, word_set

MAX_WORDS = 4
_NUMBER = re.compile(r"[$€£¥]?\d[\d.,:]*(?:%|st|nd|rd|th|k|m|bn)?$", re.IGNORECASE)
_DETERMINERS = english_words("determiners_before_nouns")
_AFTER_VERB = _DETERMINERS | word_set("it them him us me you to that how what up out off")
_PREPOSITIONS = english_words("prepositions")
_BEFORE_BASE = english_words("before_bases")
_CLOSED = _AFTER_VERB | _PREPOSITIONS | word_set("of and or but than when while")
_NAME_WORDS = english_words("words_of_names")
_SUBJECT_PRONOUNS = word_set("he she it who which that they")
_PARTICLES = word_set("ten van von der den de da di del la le al bin ibn")
_AUXILIARIES = english_words("auxiliaries")
_VERBS = english_words("verbs")
_WITH_PREPOSITION = english_words("verbs_with_preposition")
_PAST_FORMS = english_words("past_forms")
_NOUNS_LIKE_VERBS = word_set("cost set cut split left lead")
_PAST_ENDINGS = (("ed", ""), ("d", ""))
_GERUND_ENDINGS = (("ing", ""), ("ing", "e"))
_PRESENT_ENDINGS = (("s", ""), ("es", ""), ("ies", "y"), *_GERUND_ENDINGS)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of the tokens [first, last) of a sentence.

    `weight`, from 0 to about 1.5: its highest idf over the corpus's highest, plus bonuses. `sort`:
    name (capitalised), code (letters with digits, or inner capitals), number, or term.
    """

    first: int
    last: int
    text: str
    sort: str
    weight: float


def find_phrases(
    sentence: str, tokens: Sequence[Token], statistics: TermStatistics, language: Language
) -> list[Phrase]:
    """Return the phrases of a sentence in order, without overlap.

    They are the longest runs of at most four content words; names are separate from other words.
    """
    phrases: list[Phrase] = []
    run: list[int] = []
    english = language.code == "en"
    for position, token in enumerate(tokens):
        is_part = is_content(token, statistics, language)
        if is_part and english and (_is_adverb(token) or _is_verb(tokens, position)):
            is_part = False
        if is_part or _is_name_word(tokens, position):
            if run and _separates(tokens[run[-1]], token, sentence, len(run)):
                _close(phrases, run, sentence, tokens, statistics)
            run.append(position)
        else:
            _close(phrases, run, sentence, tokens, statistics)
    _close(phrases, run, sentence, tokens, statistics)
    return phrases


def is_content(token: Token, statistics: TermStatistics, language: Language) -> bool:
    """Return whether a token can be part of a phrase: no punctuation, no function word."""
    if not token.text[-1].isalnum() and not token.text.endswith("%"):
        return False
    if token.folded in language.function_words or is_unspaced_function(token.text):
        return False
    is_short = len(token.text) < 2
    if not language.function_words and (is_short or statistics.is_common(token.folded)):
        return False
    return not is_short or token.has_digit or not token.text.isascii()


def find_verb(tokens: Sequence[Token]) -> int | None:
    """Return the place of the first word of an English sentence that is surely a verb."""
    for position, token in enumerate(tokens):
        if token.folded in _AUXILIARIES or _is_verb(tokens, position):
            return position
    return None


def is_participle(word: str) -> bool:
    """Return whether an English word is a past or gerund of a known verb (*chosen*, *asking*)."""
    if word in _PAST_FORMS:
        return True
    return _is_form_of(_VERBS, word, (*_PAST_ENDINGS, *_GERUND_ENDINGS))


def _is_adverb(token: Token) -> bool:
    """Return whether an English word ends as adverbs do, and is no name."""
    return token.folded.endswith("ly") and len(token.folded) > 5 and not token.is_capital


def _is_verb(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an English word is a verb in its place (*sees Newcastle*)."""
    token = tokens[at]
    if token.is_capital or not token.text.isalpha() or token.folded in _NOUNS_LIKE_VERBS:
        return False
    before = tokens[at - 1].folded if at else ""
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if _is_past(token.folded, before, after):
        return True
    if token.folded in _VERBS:
        return before in _BEFORE_BASE or _takes_preposition(token.folded, before, after)
    if before in _DETERMINERS or not _is_form_of(_VERBS, token.folded, _PRESENT_ENDINGS):
        return False
    if not before or before in _SUBJECT_PRONOUNS:
        return True
    if after is None:
        return False
    if after.folded in _PREPOSITIONS:
        return _is_form_of(_WITH_PREPOSITION, token.folded, _PRESENT_ENDINGS)
    return after.folded in _AFTER_VERB or after.is_capital or after.has_digit


def _is_past(word: str, before: str, after: Token | None) -> bool:
    """Return whether a word between two others is a past or participle, and no adjective."""
    if word.endswith("ed") and not word.endswith("eed") and len(word) > 4:
        ends_phrase = after is None or after.folded in _CLOSED or not after.text[-1].isalnum()
        if ends_phrase:
            return True
    if before in _DETERMINERS:
        return False
    return word in _PAST_FORMS or _is_form_of(_VERBS, word, _PAST_ENDINGS)


def _takes_preposition(word: str, before: str, after: Token | None) -> bool:
    """Return whether a base form follows a plural and governs a preposition (*tests depend on*)."""
    if word not in _WITH_PREPOSITION or not before.endswith("s"):
        return False
    return after is not None and after.folded in _PREPOSITIONS


def _is_form_of(verbs: frozenset[str], word: str, endings: Sequence[tuple[str, str]]) -> bool:
    """Return whether a word is one of some verbs with an ending in the place of its own."""
    for ending, own in endings:
        if word.endswith(ending) and word.removesuffix(ending) + own in verbs:
            return True
    return False


def _is_name_word(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a word belongs to a name (*New* in *New York*, *ten* in *Erik ten Hag*)."""
    token = tokens[at]
    if not 0 < at < len(tokens) - 1 or not token.text.isalpha():
        return False
    if not tokens[at + 1].is_capital:
        return False
    if token.is_capital:
        return token.folded in _NAME_WORDS
    return token.folded in _PARTICLES and tokens[at - 1].is_capital


def _separates(before: Token, token: Token, sentence: str, length: int) -> bool:
    """Return whether a phrase of `length` words ends between two neighbouring content words."""
    if length >= MAX_WORDS or sentence[before.end : token.start].strip():
        return True
    if token.folded in _PARTICLES or before.folded in _PARTICLES:
        return False
    if token.has_digit or before.has_digit:
        return False
    return token.is_capital != before.is_capital and before.start > 0


def _close(
    phrases: list[Phrase],
    run: list[int],
    sentence: str,
    tokens: Sequence[Token],
    statistics: TermStatistics,
) -> None:
    """Add the phrase of a run of tokens, and empty the run."""
    if not run:
        return
    first = run[0]
    last = run[-1] + 1
    run.clear()
    words = tokens[first:last]
    start = words[0].start
    text = sentence[start : words[-1].end].removesuffix("'s").removesuffix("’s")
    sort = _classify(words, statistics)
    highest = max(statistics.idf(word.folded) for word in words)
    weight = highest / statistics.highest_idf
    if sort == "number":
        weight *= 0.4
    bonus = 0.1 * min(2, len(words) - 1)
    if sort in ("name", "code"):
        bonus = 0.15 + bonus
    weight += bonus
    phrases.append(Phrase(first, last, text, sort, weight))


def _classify(words: Sequence[Token], statistics: TermStatistics) -> str:
    if all(_NUMBER.match(word.text) for word in words):
        return "number"
    if len(words) == 1 and words[0].is_code:
        return "code"
    capital = [word for word in words if word.is_capital]
    if not capital:
        return "term"
    if len(capital) < len(words) and capital[0].folded not in statistics.capitalised:
        return "term"
    for word in words:
        is_lower_case = word.folded in statistics.lower_case
        if is_lower_case and word.folded not in _PARTICLES and word.folded not in _NAME_WORDS:
            return "term"
    return "name"
