"""Claims: salient sentences, compressed and cleaned of brackets, connectives and tails."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

from engine.queries.rules.phrases import find_verb
from engine.queries.rules.salience import Sentence
from engine.queries.rules.tokens import tokenize
from engine.queries.rules.vocabulary import Language, english_words

# Enumerators before a sentence: "• ", "2.1) ", "(a) ", "iv. "
_BULLET = re.compile(
    r"^\s*(?:[-*•▪◦‣|#>]+\s*|\(?(?:\d{1,3}(?:\.\d{1,3})*|[a-zA-Z]|[ivxIVX]{1,4})[.)]+\s+)+"
)
# " (see below)", " [12]"
_BRACKETS = re.compile(r"\s*(?:\([^()]{0,300}\)|\[[^\[\]]{0,300}\])")
# An insertion: " – which is rare – "
_DASHED = re.compile(r"\s+[—–-]\s+[^—–]{3,120}?\s+[—–-]\s+")
# Quotation marks and Markdown's marks, but no apostrophe: *don't* and *the pumps' noise* keep it.
_MARKS = re.compile(r"[\"“”«»„]|(?<!\w)['‘’]|(?<![sS])['‘’](?!\w)|[*_`|#]+")
_SPACE = re.compile(r"\s+")
_END_MARKS = " \t\n.!?…,;:-–—。！？"
_MIN_WORDS_LEFT = 5
_MIN_WORDS_AFTER_VERB = 3
_CUT_BEFORE = english_words("cut_before")
MIN_WORDS = 4
MAX_WORDS = 26
USUAL_WORDS = (10, 13, 16)
"""Numbers of words that an English claim has at most, if it can be cut there."""


def claim_query(
    sentence: Sentence,
    language: Language,
    rng: random.Random,
) -> str | None:
    """Return a sentence as a claim, or None if it is vague, short or a question.

    Enumerators, brackets, connectives and tails are removed. An English sentence must have a verb,
    and is cut before a preposition or conjunction. A claim of more than `MAX_WORDS` words is cut at
    the last comma before.
    """
    if sentence.text.rstrip().endswith(("?", ":")):
        return None
    text = clean(sentence.text, language)
    words = [word.casefold().strip(",") for word in text.split()]
    if not words or words[0] in language.vague or not language.personal.isdisjoint(words):
        return None
    if rng.random() < 0.5:
        text = without_lead(text)
    text = without_tail(text, language)
    if language.code == "en":
        shorter = shorten(text, rng.choice(USUAL_WORDS))
        if shorter is None:
            return None
        text = shorter
    text = without_loose_end(_cut_at_comma(text), language)
    count = len(text.split())
    # Chinese, Japanese and Thai have no spaces between words: there, characters are counted.
    is_unspaced = count < 2 and not text.isascii()
    if count >= MIN_WORDS or (is_unspaced and len(text) >= 8):
        return text[:1].upper() + text[1:]
    return None


def shorten(text: str, max_words: int) -> str | None:
    """Return an English sentence, cut before a preposition or conjunction if it is too long.

    At most `max_words` words are kept if it can be cut there; at least three after the first verb
    always are. None without a verb.
    """
    tokens = tokenize(text)
    verb = find_verb(tokens)
    if verb is None:
        return None
    first = verb + 1 + _MIN_WORDS_AFTER_VERB
    cuts = [index for index in range(first, len(tokens)) if tokens[index].folded in _CUT_BEFORE]
    if len(tokens) <= max_words or not cuts:
        return text
    fitting = [cut for cut in cuts if cut <= max_words]
    cut = fitting[-1] if fitting else cuts[0]
    return text[: tokens[cut - 1].end]


def _cut_at_comma(text: str) -> str:
    """Return a text of at most `MAX_WORDS` words, cut at the last comma if there is one."""
    words = text.split()
    if len(words) <= MAX_WORDS:
        return text
    head = " ".join(words[:MAX_WORDS])
    return head.rpartition(",")[0] or head


def _join_words(words: Sequence[str]) -> str:
    """Return a pattern of any of these words or phrases, with any white space within them."""
    return "|".join(map(re.escape, words)).replace(r"\ ", r"\s+")


@cache
def _compile_leading(connectives: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern of connectives at the beginning: "However, ", "And ", "Und "."""
    joined = _join_words(connectives)
    return re.compile(
        rf"^(?:(?:{joined})\s*,\s*|(?:and|but|so|yet|or|und|aber|oder|mais|et|or|pero|y)\s+)+",
        re.IGNORECASE,
    )


@cache
def _compile_tail(relatives: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern of a tail up to the end: ", which …", "; …", ": …", " – …"."""
    joined = _join_words(relatives)
    return re.compile(rf"\s*(?:,\s+(?:{joined})\b|;\s|:\s|\s[—–]\s).*$", re.IGNORECASE | re.DOTALL)


def clean(sentence: str, language: Language) -> str:
    """Return a sentence without enumerators, brackets, insertions, quotes and connectives."""
    text = _BULLET.sub("", sentence)
    text = _BRACKETS.sub("", text)
    text = _DASHED.sub(" ", text)
    text = _SPACE.sub(" ", _MARKS.sub("", text)).strip()
    if language.connectives:
        text = _compile_leading(language.connectives).sub("", text)
    return re.sub(r"\s+([,.;:!?])", r"\1", text).strip(_END_MARKS + "([")


def without_tail(text: str, language: Language) -> str:
    """Return a text up to its first subordinate tail, if at least five words remain."""
    if not language.relatives:
        return text
    shorter = _compile_tail(language.relatives).sub("", text).strip(_END_MARKS)
    return shorter if len(shorter.split()) >= _MIN_WORDS_LEFT else text


def without_lead(text: str) -> str:
    """Return a text without a short phrase before its first comma, if five words follow.

    "In 2019, the plant closed its two oldest furnaces" → "the plant closed its two oldest furnaces"
    """
    lead, comma, remainder = text.partition(", ")
    is_short = len(lead.split()) <= 6 and len(remainder.split()) >= _MIN_WORDS_LEFT
    if comma and is_short and "," not in remainder[:40]:
        return remainder
    return text


def without_loose_end(text: str, language: Language) -> str:
    """Return a text without the function words and punctuation that a cut leaves at its end."""
    words = text.strip(_END_MARKS).split()
    while len(words) > 1:
        last = words[-1].casefold().strip(",")
        if last not in language.function_words:
            break
        words.pop()
    return " ".join(words).strip(_END_MARKS)
