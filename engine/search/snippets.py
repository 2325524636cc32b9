"""Snippets: the part of a chunk that best shows why it was found."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from engine.lexical.characters import LINE_WITHIN

Span = tuple[int, int]
WIDTH = 300
"""Length of a snippet in characters."""
_BLANK = r"\s\x00-\x1f\x7f-\x9f"  # control characters, too
_FOLDED = re.compile(
    rf"(?=[{_BLANK}])(?:{LINE_WITHIN}|(?P<blank>[{_BLANK}]{{2,}}|\A |(?! )[{_BLANK}]))"
)
"""White space and control characters to replace; a single blank between words is left alone."""


def snippet(
    text: str,
    matches: Sequence[Span],
    width: int = WIDTH,
) -> tuple[str, tuple[Span, ...]]:
    """Return about `width` characters of a text with the most matches, and their spans in it.

    `matches` are (start, end) spans in `text`, in order, without overlap. Each run of white space
    and control characters, which could command a terminal, becomes a blank. Where the text goes on,
    the snippet has an ellipsis.
    """
    start, end = _find_window(
        text,
        matches,
        max(1, width),
    )
    before = "… " if text[:start].strip() else ""
    after = " …" if text[end:].strip() else ""
    body, offsets = _fold(text[start:end])
    shown = f"{before}{body}{after}"
    body_end = len(before) + len(body)
    marks: list[Span] = []
    for first, last in matches:
        if start <= first < last <= end:
            # The places in the body of the match's first and last characters.
            left = len(before) + bisect_left(offsets, first - start)
            right = len(before) + bisect_left(offsets, last - start - 1) + 1
            right = min(right, body_end)
            if left < right:
                marks.append((left, right))
    return shown, tuple(marks)


def first_shown(text: str, matches: Sequence[Span]) -> int:
    """Return the offset of the first match that the `snippet` of a text shows.

    If it shows none, the offset at which the snippet begins.
    """
    start, end = _find_window(text, matches, WIDTH)
    for first, last in matches:
        if start <= first and last <= end:
            return first
    return start


def page_at(pages: Sequence[tuple[int, int, str]], offset: int) -> tuple[int, str]:
    """Return the number and name of the page, slide or sheet at an offset within a chunk.

    `pages`: (offset, number, name), at least one, in order.
    """
    following = bisect_right(
        pages,
        offset,
        key=itemgetter(0),
    )
    current = max(0, following - 1)
    _, number, name = pages[current]
    return number, name


def _find_window(
    text: str,
    matches: Sequence[Span],
    width: int,
) -> Span:
    """Return the earliest span of at most `width` characters with the most different matches.

    If possible, it is cut at white space before its first match and after its last one.
    """
    if len(text) <= width:
        return 0, len(text)
    begin = fullest_window(text, matches, width)
    end = begin + width
    starts = []
    ends = []
    for first, last in matches:
        if begin <= first and last <= end:
            starts.append(first)
            ends.append(last)
    if begin > 0:
        first_match = starts[0] if starts else begin + width // 2
        begin = _find_word_start(text, begin, first_match)
    if end < len(text):
        last_match = ends[-1] if ends else begin + width // 2
        end = _find_word_end(text, end, last_match)
    return begin, end


def _find_word_start(
    text: str,
    begin: int,
    latest: int,
) -> int:
    """Return the first offset from `begin` to `latest` at or after white space, else `begin`."""
    for offset in range(begin, latest + 1):
        if text[offset].isspace() or text[offset - 1].isspace():
            return offset
    return begin


def _find_word_end(
    text: str,
    end: int,
    earliest: int,
) -> int:
    """Return the last offset from `earliest` to `end` at white space, else `end`."""
    for offset in range(end, earliest - 1, -1):
        if text[offset].isspace():
            return offset
    return end


def fullest_window(
    text: str,
    matches: Sequence[Span],
    width: int,
) -> int:
    """Return the start of the `width` characters that contain the most different matches.

    Only windows at the text's beginning and shortly before each match are compared; of equal ones,
    the first is returned. The matches are passed once, with an index for each end of the window.
    """
    words = []
    anchors = [0]
    for first, last in matches:
        words.append(text[first:last].lower())
        anchors.append(first)
    # How often each word occurs in the window; `left` and `right` delimit the matches in it.
    counts: Counter[str] = Counter()
    best = 0
    most = -1
    left = 0
    right = 0
    last_begin = len(text) - width
    for anchor in anchors:
        begin = max(0, min(anchor - width // 6, last_begin))  # a sixth of it precedes the match
        end = begin + width
        while right < len(matches) and matches[right][1] <= end:
            counts[words[right]] += 1
            right += 1
        while left < right and matches[left][0] < begin:
            word = words[left]
            counts[word] -= 1
            if not counts[word]:
                del counts[word]
            left += 1
        if len(counts) > most:
            best = begin
            most = len(counts)
    return best


def _fold(text: str) -> tuple[str, list[int]]:
    """Replace runs of white space and control characters by single blanks, and strip the text.

    A line break within Chinese or Japanese words is removed. Returns the new text, and the offset
    in `text` of each of its characters, then of those stripped from its end.
    """
    folded = ""
    offsets: list[int] = []
    end = 0
    for match in _FOLDED.finditer(text):
        start = match.start()
        blank = " " if match["blank"] and start else ""
        folded += text[end:start] + blank
        offsets += range(end, start + len(blank))
        end = match.end()
    folded += text[end:]
    offsets += range(end, len(text))
    return folded.rstrip(" "), offsets
