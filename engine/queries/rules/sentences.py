"""Sentences of a text as character spans: robust to abbreviations, decimals, codes, list items
and tables.
"""

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
    """Spans of the sentences of `text`, without surrounding white space, in order and not
    overlapping.

    Paragraphs, list items and table rows end a sentence; a single line break inside a paragraph
    does so only when it looks like a heading or cell (both lines short). A full stop ends one when
    the next word starts with a capital, digit, quote or bracket (or when a space stands before the
    stop, as in tokenised collections), unless it belongs to an abbreviation, an initial, a decimal,
    an ordinal or an enumerator.
    """
    spans: list[Span] = []
    for block in _blocks(text):
        start = block.start
        for match in _STOP.finditer(text, block.start, block.end):
            if match.end() < block.end and _ends_sentence(text, start, match, block.end):
                _append(spans, text, start, match.end())
                start = match.end()
        _append(spans, text, start, block.end)
    return spans


def _blocks(text: str) -> list[Span]:
    cuts = [0]
    for match in _BLOCK.finditer(text):
        cuts.extend((match.start(), match.end()))
    cuts.append(len(text))
    blocks: list[Span] = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=True):
        blocks.extend(_lines(text, start, end))
    return blocks


def _lines(text: str, start: int, end: int) -> list[Span]:
    """A paragraph is one block, but a short line that does not flow into the next (a heading, a
    cell) stands alone.
    """
    blocks: list[Span] = []
    begin = start
    position = text.find("\n", start, end)
    while position != -1:
        line = text[
            (
                text.rfind("\n", start, position) + 1
                if text.rfind("\n", start, position) != -1
                else start
            ) : position
        ]
        after = text[position + 1 : min(end, position + 80)].lstrip()
        if (
            len(line) < 60
            and after
            and not after[0].islower()
            and not line.rstrip().endswith((",", ";", "-"))
        ):
            blocks.append(Span(begin, position))
            begin = position + 1
        position = text.find("\n", position + 1, end)
    blocks.append(Span(begin, end))
    return blocks


def _ends_sentence(text: str, start: int, stop: re.Match[str], end: int) -> bool:
    mark = stop.group()
    after = text[stop.end() : min(end, stop.end() + 12)]
    if mark[0] in "。！？｡":
        return True
    if not after[:1].isspace():
        return False
    after = after.lstrip()
    spaced = stop.start() > start and text[stop.start() - 1].isspace()
    opens = bool(after) and (not after[0].islower() or spaced) and after[0] not in ",;:)]%"
    if not opens or mark[0] in "!?…" or mark.startswith("..."):
        return opens
    return spaced or not _abbreviated(text[start : stop.start()], mark, after)


def _abbreviated(before: str, mark: str, after: str) -> bool:
    found = _WORD_BEFORE.search(before)
    if found is None or len(mark) > 1:
        return False
    word = found.group(1)
    folded = word.casefold()
    if folded in ("a.m", "p.m", "u.s", "u.k", "u.n", "etc", "inc", "ltd", "co", "corp", "llc"):
        return re.split(r"\W", after, maxsplit=1)[0] not in _OPENERS
    if folded in _ABBREVIATIONS or (len(word) == 1 and word.isupper()):
        return True
    if re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word):
        return not after[0].isupper()
    return _ENUMERATOR.search(before + ".") is not None and (
        not before.strip() or len(before.strip()) <= 4
    )


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if end > start:
        spans.append(Span(start, end))
