"""What a language model is asked for, sentence by sentence with its sources, and what of that is
true.

Whatever stands in passages, the checks look at the numbers and quotes that the model names, and at
nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.messages.answers import Sentence
from engine.lexical.characters import UNSPACED
from engine.queries.llm.shapes import Shape

SHAPE = Shape("sentences", (("sources", "numbers"), ("text", "text"), ("quote", "text")))
_LEFT = "\\[［【〔〖⟦⁅"
_RIGHT = "\\]］】〕〗⟧⁆"
_DIGIT = r"\d⁰¹²³⁴-⁹₀-₉①-⓿"
_BRACKETED = re.compile(
    rf"[{_LEFT}]+([^{_LEFT}{_RIGHT}{_DIGIT}]*+[{_DIGIT}][^{_LEFT}{_RIGHT}]*+)([{_RIGHT}]*)"
)
_OPEN = re.compile(rf"[{_LEFT}][^{_RIGHT}]*$")
_BETWEEN = re.compile(
    f"(?<=[{UNSPACED}\u3000-\u303f]) (?=[{UNSPACED}\u3000-\u303f])"
)  # scripts without spaces
_LETTER = rf"[^\W_{UNSPACED}]"
_WITHIN = re.compile(
    rf"(?<={_LETTER})(?={_LETTER})|(?<=\d[.,])(?=\d)|(?<=\d)(?=[.,]\d)|(?<=(?<!\w)[-+])(?=\d)"
)
_RAISED = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹¼-¾⅐-⅞])")  # 10³ is not 103, nor 2½ 21/2
_SIGNS = str.maketrans("‘’‚‛“”„‟‐‑‒–—", "''''\"\"\"\"-----")


def numbered(number: int, place: str, text: str) -> str:
    """A passage after its number. No other number in it stands in brackets like that one."""
    return f"[{number}] {_without_numbers(place)}\n{_without_numbers(text)}"


def checked(
    entries: Sequence[Mapping[str, Any]], passages: Sequence[str], *, cut: bool = False
) -> tuple[Sentence, ...]:
    """The sentences of an answer in `SHAPE` that was written from these passages.

    `cut`: the last entry may not be whole.
    """
    last = len(entries) - 1
    return tuple(
        _checked(entry, passages, cut and at == last)
        for at, entry in enumerate(entries)
        if entry["text"].strip()
    )


def begun(text: str, passages: Sequence[str]) -> tuple[Sentence, ...]:
    """The sentences that the beginning of an answer holds; the last one may not be whole.

    Raises BadAnswerError.
    """
    entries, cut = (
        (SHAPE.read(whole[0]), whole[1]) if (whole := SHAPE.closed(text)) else ([], False)
    )
    for entry in entries[-1:]:
        entry["text"] = _OPEN.sub("", entry["text"])
    return checked(entries, passages, cut=cut)


def _checked(entry: Mapping[str, Any], passages: Sequence[str], cut: bool) -> Sentence:
    sources = tuple(dict.fromkeys(entry["sources"]))
    named = [passages[number - 1] for number in sources if 0 < number <= len(passages)]
    quote = " ".join(entry["quote"].split())
    if quote:
        found = any(_stands_in(_plain(quote), _plain(text), cut) for text in named)
    else:
        found = None
    text = _without_numbers(" ".join(entry["text"].split()))  # sources alone stand in brackets
    return Sentence(text, sources, 0 < len(named) == len(sources), quote, found)


def _without_numbers(text: str) -> str:
    """With parentheses for brackets that hold a digit."""
    return _BRACKETED.sub(lambda found: f"({found[1]}{')' if found[2] else ''}", text)


def _stands_in(quote: str, text: str, cut: bool) -> bool:
    """Whether a text holds a quote, beginning and, unless it is `cut`, ending between words or
    numbers.
    """
    at = text.find(quote)
    while at >= 0 and (
        _WITHIN.match(text, at) or (not cut and _WITHIN.match(text, at + len(quote)))
    ):
        at = text.find(quote, at + 1)
    return at >= 0 and any(map(str.isalnum, quote))


def _plain(text: str) -> str:
    """NFKC, with one sign for all quotation marks, one for all dashes, and a space for white
    space between words.
    """
    text = unicodedata.normalize("NFKC", _RAISED.sub("^", _without_numbers(text))).translate(_SIGNS)
    return _BETWEEN.sub("", " ".join(text.split()))
