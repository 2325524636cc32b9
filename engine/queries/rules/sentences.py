"""Splitting of texts into sentences, despite abbreviations, decimals, codes, lists and tables."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.queries.rules.vocabulary import word_set

_ABBREVIATIONS = word_set("""
mr mrs ms dr prof sr jr st vs etc e.g i.e cf al fig figs eq eqs eqn ref refs no nos vol pp ed eds inc ltd co corp
llc gen gov sen rep lt col sgt capt hon rev dept est approx ca resp art sec ch par para mt ave blvd jan feb mar apr
jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun bzw z.b d.h u.a ggf evtl usw vgl nr abs str inkl zzgl
dipl ing hr fr mme mlle mm av env p.ex sra srta dra ud uds pág núm art.º a.m p.m u.s u.k u.n min max temp bros univ
assn subj exh
""")  # noqa: E501
# Abbreviations that end a sentence if a new one begins after them, with one of `_OPENERS`.
_MAY_END_SENTENCE = word_set("a.m p.m u.s u.k u.n etc inc ltd co corp llc")
_OPENERS = word_set(
    "The A An In It He She They We I But And This That These For At On As If When While His Her"
)
# Ends of blocks: an empty line, or a line break before a list item or table row ("- ", "|", "2) ").
_BLOCK = re.compile(
    r"\n[ \t]*\n+|\n(?=[ \t]*(?:[-*•▪◦‣|#>]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]\s))"
)
_MAX_HEADING_LENGTH = 60
"""Length of a line, in characters, from which it is taken for a line of text."""
# Marks that may end a sentence, with closing quotes and brackets: ".", "?!", '."', "。".
_STOP = re.compile(r"(?:[.!?…]+|[。！？｡])[\"'”’»)\]]*")
# An enumerator at the end: "12.", "(b.", "iv."
_ENUMERATOR = re.compile(r"(?:^|\s)\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})\.$")
# The last word, without quotes and brackets before it.
_LAST_WORD = re.compile(r"([^\s(\[\"'“”‘’«]+)$")


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


def split_sentences(text: str) -> list[Span]:
    """Return the spans of the sentences in order, without surrounding white space.

    Paragraphs, list items and table rows end a sentence; a single line break within a paragraph
    only after a short line that looks like a heading or cell. A full stop ends a sentence if the
    next word starts with a capital, digit, quote or bracket (or if a space precedes the stop, as in
    tokenised collections), unless it belongs to an abbreviation, an initial, a decimal, an ordinal
    or an enumerator.
    """
    spans: list[Span] = []
    for block in _split_blocks(text):
        start = block.start
        for match in _STOP.finditer(text, block.start, block.end):
            end = match.end()
            if end < block.end and _ends_sentence(text, start, match, block.end):
                _append(spans, text, start, end)
                start = end
        _append(
            spans,
            text,
            start,
            block.end,
        )
    return spans


def _split_blocks(text: str) -> list[Span]:
    """Return the spans that no sentence crosses: paragraphs, list items, rows, headings."""
    blocks: list[Span] = []
    start = 0
    for match in _BLOCK.finditer(text):
        blocks.extend(_split_paragraph(text, start, match.start()))
        start = match.end()
    blocks.extend(_split_paragraph(text, start, len(text)))
    return blocks


def _split_paragraph(
    text: str,
    start: int,
    end: int,
) -> list[Span]:
    """Return a paragraph as one block, except that it ends after a heading or cell.

    That is a short line that does not continue in the next one.
    """
    blocks: list[Span] = []
    block_start = start
    line_start = start
    line_end = text.find("\n", start, end)
    while line_end != -1:
        line = text[line_start:line_end]
        line_start = line_end + 1
        after_end = min(end, line_end + 80)  # more than the white space before the next word
        after = text[line_start:after_end].lstrip()
        is_open = line.rstrip().endswith((",", ";", "-"))
        continues = is_open or not after or after[0].islower()
        if len(line) < _MAX_HEADING_LENGTH and not continues:
            blocks.append(Span(block_start, line_end))
            block_start = line_start
        line_end = text.find("\n", line_start, end)
    blocks.append(Span(block_start, end))
    return blocks


def _ends_sentence(
    text: str,
    start: int,
    stop: re.Match[str],
    end: int,
) -> bool:
    """Return whether a match of `_STOP` ends the sentence from `start` in a block up to `end`."""
    mark = stop.group()
    after_end = min(end, stop.end() + 12)  # enough for the next word
    after = text[stop.end() : after_end]
    if mark[0] in "。！？｡":
        return True
    if not after[:1].isspace():
        return False
    after = after.lstrip()
    before = text[start : stop.start()]
    is_spaced = before[-1:].isspace()
    if not after or after[0] in ",;:)]%":
        return False
    if after[0].islower() and not is_spaced:
        return False
    if is_spaced or mark[0] in "!?…" or mark.startswith("..."):
        return True
    return not _is_abbreviation(before, mark, after)


def _is_abbreviation(
    before: str,
    mark: str,
    after: str,
) -> bool:
    """Return whether a full stop belongs to an abbreviation, an initial or an enumerator.

    `before`: the sentence up to the stop. `after`: what follows, without white space before it.
    """
    match = _LAST_WORD.search(before)
    if match is None or len(mark) > 1:
        return False
    word = match.group(1)
    folded = word.casefold()
    if folded in _MAY_END_SENTENCE:
        return re.split(r"\W", after, maxsplit=1)[0] not in _OPENERS
    if folded in _ABBREVIATIONS or (len(word) == 1 and word.isupper()):
        return True
    if re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word):  # letters with full stops: "e.V"
        return not after[0].isupper()
    # "12." or "(b." is an enumerator only if nothing is before it.
    is_short = len(before.strip()) <= 4
    return is_short and _ENUMERATOR.search(before + ".") is not None


def _append(
    spans: list[Span],
    text: str,
    start: int,
    end: int,
) -> None:
    """Add the span of text[start:end] without surrounding white space, unless it is empty."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if end > start:
        spans.append(Span(start, end))
