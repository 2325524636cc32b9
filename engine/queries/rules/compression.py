"""A sentence without its ornaments: enumerators, brackets, leading connectives, quoted speech, subordinate tails."""

from __future__ import annotations

import re
from functools import cache

from engine.queries.rules.languages import Language

_BULLET = re.compile(r"^\s*(?:[-*•▪◦‣|#>]+\s*|\(?(?:\d{1,3}(?:\.\d{1,3})*|[a-zA-Z]|[ivxIVX]{1,4})[.)]+\s+)+")
_BRACKETS = re.compile(r"\s*(?:\([^()]{0,300}\)|\[[^\[\]]{0,300}\])")
_DASHED = re.compile(r"\s+[—–-]\s+[^—–]{3,120}?\s+[—–-]\s+")
_MARKS = re.compile(r"[\"“”«»„]|(?<!\w)['‘’]|(?<![sS])['‘’](?!\w)|[*_`|#]+")
_SPACE = re.compile(r"\s+")
_END = " \t\n.!?…,;:-–—。！？"


@cache
def _leading(connectives: tuple[str, ...]) -> re.Pattern[str]:
    joined = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in connectives)
    return re.compile(
        rf"^(?:(?:{joined})\s*,\s*|(?:and|but|so|yet|or|und|aber|oder|mais|et|or|pero|y)\s+)+", re.IGNORECASE
    )


@cache
def _tail(relatives: tuple[str, ...]) -> re.Pattern[str]:
    joined = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in relatives)
    return re.compile(rf"\s*(?:,\s+(?:{joined})\b|;\s|:\s|\s[—–]\s).*$", re.IGNORECASE | re.DOTALL)


def clean(sentence: str, language: Language) -> str:
    """One line without enumerators, brackets, dashed insertions, quotation marks and leading connectives."""
    text = _BULLET.sub("", sentence)
    text = _BRACKETS.sub("", text)
    text = _DASHED.sub(" ", text)
    text = _SPACE.sub(" ", _MARKS.sub("", text)).strip()
    if language.connectives:
        text = _leading(language.connectives).sub("", text)
    return re.sub(r"\s+([,.;:!?])", r"\1", text).strip(_END + "([")


def without_tail(text: str, language: Language, least: int = 5) -> str:
    """`text` up to its first subordinate tail, when at least `least` words are left; else unchanged."""
    if not language.relatives:
        return text
    shorter = _tail(language.relatives).sub("", text).strip(_END)
    return shorter if len(shorter.split()) >= least else text


def without_lead(text: str, least: int = 5) -> str:
    """`text` without a short first phrase that ends in a comma, when at least `least` words follow it."""
    lead, comma, rest = text.partition(", ")
    if comma and len(lead.split()) <= 6 and len(rest.split()) >= least and "," not in rest[:40]:
        return rest
    return text


def without_loose_end(text: str, language: Language) -> str:
    """`text` without function words and marks at its end, as a cut leaves them."""
    words = text.strip(_END).split()
    while len(words) > 1 and words[-1].casefold().strip(",") in language.function_words:
        words.pop()
    return " ".join(words).strip(_END)
