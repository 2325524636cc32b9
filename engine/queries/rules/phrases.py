"""Distinctive phrases of sentences: names, codes, numbers and terms of several words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import Token, is_unspaced_function
from engine.queries.rules.vocabulary import Language, english_words, word_set

MAX_WORDS = 4
# "2,450", "$3.5bn", "12%", "21st"
_NUMBER = re.compile(r"[$€£¥]?\d[\d.,:]*(?:%|st|nd|rd|th|k|m|bn)?$", re.IGNORECASE)
_DETERMINERS = english_words("determiners_before_nouns")
# Words that follow a verb, but hardly ever a noun: "shows how", "needs a".
_AFTER_VERB = _DETERMINERS | word_set("it them him us me you to that how what up out off")
_PREPOSITIONS = english_words("prepositions")
# Words before a verb's base form: "to sell", "will sell".
_BEFORE_BASE = english_words("before_bases")
# Words before which no noun phrase goes on, so that "-ed" before them is no adjective.
_CLOSED = _AFTER_VERB | _PREPOSITIONS | word_set("of and or but than when while")
_NAME_WORDS = english_words("words_of_names")
_SUBJECT_PRONOUNS = word_set("he she it who which that they")
_PARTICLES = word_set("ten van von der den de da di del la le al bin ibn")
_AUXILIARIES = english_words("auxiliaries")
_VERBS = english_words("verbs")
_WITH_PREPOSITION = english_words("verbs_with_preposition")
_PAST_FORMS = english_words("past_forms")
_NOUNS_LIKE_VERBS = word_set("cost set cut split left lead")
# Endings of verb forms, each with the ending of the base form in its place: "tries" → "try".
_PAST_ENDINGS = (("ed", ""), ("d", ""))
_GERUND_ENDINGS = (("ing", ""), ("ing", "e"))
_PRESENT_ENDINGS = (
    ("s", ""),
    ("es", ""),
    ("ies", "y"),
    *_GERUND_ENDINGS,
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of the tokens [first, end) of a sentence."""

    first: int
    end: int
    text: str
    category: str
    """name (capitalised), code (letters with digits, or inner capitals), number, or term."""
    weight: float
    """From 0 to about 1.5: the highest idf of its words over the corpus's highest, plus bonuses."""


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
            if run and _ends_phrase(tokens[run[-1]], token, sentence, len(run)):
                _add_phrase(
                    phrases,
                    run,
                    sentence,
                    tokens,
                    statistics,
                )
            run.append(position)
        else:
            _add_phrase(
                phrases,
                run,
                sentence,
                tokens,
                statistics,
            )
    _add_phrase(
        phrases,
        run,
        sentence,
        tokens,
        statistics,
    )
    return phrases


def is_content(
    token: Token,
    statistics: TermStatistics,
    language: Language,
) -> bool:
    """Return whether a token can be part of a phrase.

    Punctuation marks, function words and single ASCII letters cannot.
    """
    if not token.text[-1].isalnum() and not token.text.endswith("%"):
        return False
    if token.folded in language.function_words or is_unspaced_function(token.text):
        return False
    is_single = len(token.text) < 2
    # If a language has no list of function words, its most frequent words take their place.
    if not language.function_words and (is_single or statistics.is_common(token.folded)):
        return False
    return not is_single or token.has_digit or not token.text.isascii()


def find_verb(tokens: Sequence[Token]) -> int | None:
    """Return the position of the first word of an English sentence that is surely a verb."""
    for position, token in enumerate(tokens):
        if token.folded in _AUXILIARIES or _is_verb(tokens, position):
            return position
    return None


def is_participle(word: str) -> bool:
    """Return whether an English word is a past or gerund of a known verb (*chosen*, *asking*)."""
    if word in _PAST_FORMS:
        return True
    return _is_form_of(
        _VERBS,
        word,
        (*_PAST_ENDINGS, *_GERUND_ENDINGS),
    )


def _is_adverb(token: Token) -> bool:
    """Return whether an English word ends as adverbs do, and is no name."""
    return token.folded.endswith("ly") and len(token.folded) > 5 and not token.is_capital


def _is_verb(tokens: Sequence[Token], position: int) -> bool:
    """Return whether an English word is a verb in its context (*sees Newcastle*)."""
    token = tokens[position]
    if token.is_capital or not token.text.isalpha() or token.folded in _NOUNS_LIKE_VERBS:
        return False
    before = tokens[position - 1].folded if position else ""
    after = tokens[position + 1] if position + 1 < len(tokens) else None
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


def _is_past(
    word: str,
    before: str,
    after: Token | None,
) -> bool:
    """Return whether a word is a past tense or participle, and no adjective before a noun."""
    is_regular = word.endswith("ed") and not word.endswith("eed") and len(word) > 4
    ends_phrase = after is None or after.folded in _CLOSED or not after.text[-1].isalnum()
    if is_regular and ends_phrase:
        return True
    if before in _DETERMINERS:
        return False
    return word in _PAST_FORMS or _is_form_of(_VERBS, word, _PAST_ENDINGS)


def _takes_preposition(
    word: str,
    before: str,
    after: Token | None,
) -> bool:
    """Return whether a base form follows a plural and governs a preposition (*tests depend on*)."""
    if word not in _WITH_PREPOSITION or not before.endswith("s"):
        return False
    return after is not None and after.folded in _PREPOSITIONS


def _is_form_of(
    verbs: frozenset[str],
    word: str,
    endings: Sequence[tuple[str, str]],
) -> bool:
    """Return whether a word is a form of one of the verbs, by its ending (`_PAST_ENDINGS`)."""
    for ending, base_ending in endings:
        if word.endswith(ending) and word.removesuffix(ending) + base_ending in verbs:
            return True
    return False


def _is_name_word(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a word belongs to a name (*New* in *New York*, *ten* in *Erik ten Hag*)."""
    token = tokens[position]
    if not 0 < position < len(tokens) - 1 or not token.text.isalpha():
        return False
    if not tokens[position + 1].is_capital:
        return False
    if token.is_capital:
        return token.folded in _NAME_WORDS
    return token.folded in _PARTICLES and tokens[position - 1].is_capital


def _ends_phrase(
    before: Token,
    token: Token,
    sentence: str,
    length: int,
) -> bool:
    """Return whether a phrase of `length` words ends between two neighbouring content words.

    It does after `MAX_WORDS` words, at punctuation, and where a name begins or ends.
    """
    if length >= MAX_WORDS or sentence[before.end : token.start].strip():
        return True
    if token.folded in _PARTICLES or before.folded in _PARTICLES:
        return False
    if token.has_digit or before.has_digit:
        return False
    # The capital of a sentence's first word does not make it a name.
    return token.is_capital != before.is_capital and before.start > 0


def _add_phrase(
    phrases: list[Phrase],
    run: list[int],
    sentence: str,
    tokens: Sequence[Token],
    statistics: TermStatistics,
) -> None:
    """Add the phrase of a run of token positions to `phrases`, and empty the run."""
    if not run:
        return
    first = run[0]
    end = run[-1] + 1
    run.clear()
    words = tokens[first:end]
    start = words[0].start
    text = sentence[start : words[-1].end].removesuffix("'s").removesuffix("’s")
    category = _classify(words, statistics)
    highest_idf = max(statistics.idf(word.folded) for word in words)
    weight = highest_idf / statistics.highest_idf
    if category == "number":
        weight *= 0.4
    bonus = 0.1 * min(2, len(words) - 1)
    if category in ("name", "code"):
        bonus = 0.15 + bonus
    weight += bonus
    phrases.append(Phrase(first, end, text, category, weight))


def _classify(words: Sequence[Token], statistics: TermStatistics) -> str:
    """Return the category of a phrase (see `Phrase`)."""
    if all(_NUMBER.match(word.text) for word in words):
        return "number"
    if len(words) == 1 and words[0].is_code:
        return "code"
    capital = [word for word in words if word.is_capital]
    if not capital:
        return "term"
    if len(capital) < len(words) and capital[0].folded not in statistics.capitalised:
        return "term"
    # The capital of a word that the corpus mostly writes small is that of a title or sentence.
    for word in words:
        is_lower_case = word.folded in statistics.lower_case
        if is_lower_case and word.folded not in _PARTICLES and word.folded not in _NAME_WORDS:
            return "term"
    return "name"
