"""The form of an answer: sentences with sources and quotes; and the checks of these.

The checks depend only on the numbers and quotes that the model names, so text in a passage cannot
pass for a source.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from engine.core.messages.answers import Sentence
from engine.lexical.characters import UNSPACED
from engine.llm.shapes import Entry, Numbers, Shape, Text


class SentenceEntry(Entry):
    """A sentence of an answer, as the model writes it."""

    sources: Numbers
    """Numbers, from 1, of the passages that the sentence is from."""
    text: Text
    quote: Text
    """Words of one of these passages."""


SHAPE = Shape("sentences", SentenceEntry)
_LEFT = "\\[［【〔〖⟦⁅"
_RIGHT = "\\]］】〕〗⟧⁆"
_DIGIT = r"\d⁰¹²³⁴-⁹₀-₉①-⓿"
# [1], or 【see 2】 with other brackets
_BRACKETED = re.compile(
    rf"[{_LEFT}]+([^{_LEFT}{_RIGHT}{_DIGIT}]*+[{_DIGIT}][^{_LEFT}{_RIGHT}]*+)([{_RIGHT}]*)"
)
# [1 at the end of a text that is still being written
_OPEN = re.compile(rf"[{_LEFT}][^{_RIGHT}]*$")
_BETWEEN = re.compile(f"(?<=[{UNSPACED}\u3000-\u303f]) (?=[{UNSPACED}\u3000-\u303f])")
"""A blank between characters of scripts without spaces."""
_LETTER = rf"[^\W_{UNSPACED}]"
# Between two letters, and between the parts of 2.50 and -5
_INSIDE_WORD = re.compile(
    rf"(?<={_LETTER})(?={_LETTER})|(?<=\d[.,])(?=\d)|(?<=\d)(?=[.,]\d)|(?<=(?<!\w)[-+])(?=\d)"
)
_RAISED = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹¼-¾⅐-⅞])")
"""Before a raised digit or a fraction: 10³ is not 103, nor 2½ 21/2."""
_SIGNS = str.maketrans("‘’‚‛“”„‟‐‑‒–—", "''''\"\"\"\"-----")


def number_passage(
    number: int,
    place: str,
    text: str,
) -> str:
    """Return `[3] Title > Section`, then the text on the next line.

    Brackets around numbers in the passage itself become parentheses.
    """
    return f"[{number}] {_replace_number_brackets(place)}\n{_replace_number_brackets(text)}"


def check_sentences(
    entries: Sequence[SentenceEntry], passages: Sequence[str], *, cut: bool = False
) -> tuple[Sentence, ...]:
    """Return the checked sentences of an answer that was written from these passages.

    `passages`: texts in order of their numbers. `cut`: the last entry may be incomplete.
    """
    sentences = []
    for number, entry in enumerate(entries, 1):
        if entry.text.strip():
            is_cut = cut and number == len(entries)
            sentences.append(_check_sentence(entry, passages, is_cut))
    return tuple(sentences)


def read_partial(text: str, passages: Sequence[str]) -> tuple[Sentence, ...]:
    """Return the checked sentences in the beginning of an answer; the last may be incomplete.

    Raises BadAnswerError.
    """
    closed = SHAPE.close_truncated(text)
    if closed is None:
        return ()
    complete, cut = closed
    entries = SHAPE.read(complete)
    for entry in entries[-1:]:
        entry.text = _OPEN.sub("", entry.text)
    return check_sentences(entries, passages, cut=cut)


def _check_sentence(
    entry: SentenceEntry,
    passages: Sequence[str],
    cut: bool,
) -> Sentence:
    """Return a sentence, and whether its sources exist and one of them contains its quote.

    `cut`: the quote may be incomplete.
    """
    sources = tuple(dict.fromkeys(entry.sources))
    cited = []
    for number in sources:
        if 0 < number <= len(passages):
            cited.append(passages[number - 1])
    exist = 0 < len(cited) == len(sources)
    quote = " ".join(entry.quote.split())
    is_quoted = None
    if quote:
        plain_quote = _simplify(quote)
        is_quoted = any(_contains(_simplify(passage), plain_quote, cut) for passage in cited)
    # Interfaces show sources as numbers in brackets, so the text must not contain others.
    text = _replace_number_brackets(" ".join(entry.text.split()))
    return Sentence(
        text,
        sources,
        exist,
        quote,
        is_quoted,
    )


def _replace_number_brackets(text: str) -> str:
    """Return a text with parentheses in place of brackets that contain a digit: `(1)` for `[1]`."""

    def replace(match: re.Match[str]) -> str:
        closing = ")" if match[2] else ""
        return f"({match[1]}{closing}"

    return _BRACKETED.sub(replace, text)


def _contains(
    text: str,
    quote: str,
    cut: bool,
) -> bool:
    """Return whether a text contains a quote of whole words and numbers.

    With `cut`, the last word may be incomplete.
    """
    if not any(map(str.isalnum, quote)):
        return False
    start = text.find(quote)
    while start >= 0:
        ends_inside = not cut and _INSIDE_WORD.match(text, start + len(quote))
        if not ends_inside and not _INSIDE_WORD.match(text, start):
            return True
        start = text.find(quote, start + 1)
    return False


def _simplify(text: str) -> str:
    """Return a text in NFKC, with uniform quotation marks, dashes and white space."""
    text = _RAISED.sub("^", _replace_number_brackets(text))
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    return _BETWEEN.sub("", " ".join(text.split()))
