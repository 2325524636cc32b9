"""Claims: a salient sentence, compressed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from engine.queries.rules.clauses import parse_clause
from engine.queries.rules.compression import clean, without_lead, without_loose_end, without_tail
from engine.queries.rules.english import shorten
from engine.queries.rules.generalisation import generalise_clause
from engine.queries.rules.languages import Language
from engine.queries.rules.salience import Sentence
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.verbs import AUXILIARIES, verb_form

_SUBORDINATE = ("though", "although", "so", "because", "if", "while")
MIN_WORDS, MAX_WORDS = 4, 26


def claim_query(sentence: Sentence, language: Language, statistics: TermStatistics, rng: random.Random) -> str | None:
    """The sentence without enumerators, brackets, connectives and tails; None when vague, short or a question.

    An English sentence whose clause the rules understand keeps its subject, its verb and the first half of the rest.
    A compressed sentence that is still longer than `MAX_WORDS` is cut at its last comma before that.
    """
    if sentence.text.rstrip().endswith(("?", ":")):
        return None
    text = clean(sentence.text, language)
    words = [word.casefold().strip(",") for word in text.split()]
    if not words or words[0] in language.vague or any(word in language.personal for word in words):
        return None
    clause = parse_clause(text, statistics) if language.code == "en" else None
    if clause is not None:
        clause = generalise_clause(clause, statistics, rng)
        text = f"{clause.subject} {clause.statement} {shorten(clause.rest, rng.choice((6, 9, 12)))}"
    elif language.code == "en" and (not _has_verb(words) or words[0] in _SUBORDINATE):
        return None
    elif rng.random() < 0.5:
        text = without_lead(text)
    text = without_loose_end(_cut(without_tail(text, language)), language)
    if language.code == "en" and not _has_verb(text.casefold().split()):
        return None
    return text[:1].upper() + text[1:] if _long_enough(text) else None


def _has_verb(words: Sequence[str]) -> bool:
    forms = [verb_form(word) for word in words if word not in AUXILIARIES]
    return len(forms) < len(words) or any(form is not None and form.form in ("past", "third") for form in forms)


def _cut(text: str) -> str:
    words = text.split()
    if len(words) <= MAX_WORDS:
        return text
    head = " ".join(words[:MAX_WORDS])
    return head.rpartition(",")[0] or head


def _long_enough(text: str) -> bool:
    words = len(text.split())
    return words >= MIN_WORDS or (words < 2 and len(text) >= 8 and not text.isascii())
