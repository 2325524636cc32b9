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
_OPENERS = word_set(
    "The A An In It He She They We I But And This That These For At On As If When While His Her"
)
_BLOCK = re.compile(
    r"\n[ \t]*\n+|\n(?=[ \t]*(?:[-*•▪◦‣|#>]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]\s))"
)
_STOP = re.compile(r"(?:[.!?…]+|[。！？｡])[\"'”’»)\]]*")
_ENUMERATOR = re.compile(r"(?:^|\s)\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})\.$")
_WORD_BEFORE = re.compile(r"([^\s(\[\"'“”‘’«]+)$")


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
        _append(spans, text, start, block.end)
    return spans


def _split_blocks(text: str) -> list[Span]:
    cuts = [0]
    for match in _BLOCK.finditer(text):
        cuts.extend((match.start(), match.end()))
    cuts.append(len(text))
    blocks: list[Span] = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=True):
        blocks.extend(_split_paragraph(text, start, end))
    return blocks


def _split_paragraph(text: str, start: int, end: int) -> list[Span]:
    """Return a paragraph as one block, except that it ends after a heading or cell.

    That is a short line that does not continue in the next one.
    """
    blocks: list[Span] = []
    begin = start
    position = text.find("\n", start, end)
    while position != -1:
        last_break = text.rfind("\n", start, position)
        line_start = start if last_break == -1 else last_break + 1
        line = text[line_start:position]
        after_end = min(end, position + 80)
        after = text[position + 1 : after_end].lstrip()
        is_open = line.rstrip().endswith((",", ";", "-"))
        continues = is_open or not after or after[0].islower()
        if len(line) < 60 and not continues:
            blocks.append(Span(begin, position))
            begin = position + 1
        position = text.find("\n", position + 1, end)
    blocks.append(Span(begin, end))
    return blocks


def _ends_sentence(text: str, start: int, stop: re.Match[str], end: int) -> bool:
    mark = stop.group()
    after_end = min(end, stop.end() + 12)
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


def _is_abbreviation(before: str, mark: str, after: str) -> bool:
    """Return whether a full stop belongs to an abbreviation, an initial or an enumerator."""
    match = _WORD_BEFORE.search(before)
    if match is None or len(mark) > 1:
        return False
    word = match.group(1)
    folded = word.casefold()
    if folded in ("a.m", "p.m", "u.s", "u.k", "u.n", "etc", "inc", "ltd", "co", "corp", "llc"):
        return re.split(r"\W", after, maxsplit=1)[0] not in _OPENERS
    if folded in _ABBREVIATIONS or (len(word) == 1 and word.isupper()):
        return True
    if re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word):
        return not after[0].isupper()
    is_short = len(before.strip()) <= 4
    return is_short and _ENUMERATOR.search(before + ".") is not None


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if end > start:
        spans.append(Span(start, end))
