"""Snippets: the part of a chunk that best shows why it was found."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from engine.lexical.characters import LINE_WITHIN

Span = tuple[int, int]
_BLANK = r"\s\x00-\x1f\x7f-\x9f"  # control characters, too
_FOLDED = re.compile(
    rf"(?=[{_BLANK}])(?:{LINE_WITHIN}|(?P<blank>[{_BLANK}]{{2,}}|\A |(?! )[{_BLANK}]))"
)
"""White space and control characters to fold; a single blank between words is left alone."""


def snippet(text: str, matches: Sequence[Span], width: int = 300) -> tuple[str, tuple[Span, ...]]:
    """Return about `width` characters of a text with the most matches, and the spans of these.

    `matches` are (start, end) spans in `text`, in order, without overlap. White space and control
    characters (which a terminal would obey) are folded; cut ends carry an ellipsis.
    """
    start, end = _find_window(text, matches, max(1, width))
    before = "… " if text[:start].strip() else ""
    after = " …" if text[end:].strip() else ""
    body, fold_offset = _fold(text[start:end])
    marks = []
    for first, last in matches:
        if start <= first < last <= end:
            left = fold_offset(first - start)
            right = min(fold_offset(last - start - 1) + 1, len(body))
            if left < right:
                marks.append((left + len(before), right + len(before)))
    return before + body + after, tuple(marks)


def first_shown(text: str, matches: Sequence[Span], width: int = 300) -> int:
    """Return the offset of the first match that the `snippet` of a text shows.

    If it shows none, the offset at which the snippet begins.
    """
    start, end = _find_window(text, matches, max(1, width))
    for first, last in matches:
        if start <= first and last <= end:
            return first
    return start


def page_at(pages: Sequence[tuple[int, int, str]], offset: int) -> tuple[int, str]:
    """Return the number and name of the page, slide or sheet at an offset within a chunk.

    `pages`: (offset, number, name), at least one, in order.
    """
    following = bisect_right(pages, offset, key=lambda page: page[0])
    _, number, name = pages[max(0, following - 1)]
    return number, name


def _find_window(text: str, matches: Sequence[Span], width: int) -> Span:
    """Return the earliest span of at most `width` characters with the most different matches.

    If possible, it is cut at white space before its first match and after its last one.
    """
    if len(text) <= width:
        return 0, len(text)
    begin = fullest_window(text, matches, width)
    end = begin + width
    inside = [(first, last) for first, last in matches if first >= begin and last <= end]
    if inside:
        first_match = inside[0][0]
    else:
        first_match = begin + width // 2
    if begin > 0 and not text[begin - 1].isspace():
        for offset in range(begin, first_match + 1):
            if text[offset].isspace() or text[offset - 1].isspace():
                begin = offset
                break
    if inside:
        last_match = inside[-1][1]
    else:
        last_match = begin + width // 2
    if end < len(text):
        for offset in range(end, last_match - 1, -1):
            if text[offset].isspace():
                end = offset
                break
    return begin, end


def fullest_window(text: str, matches: Sequence[Span], width: int) -> int:
    """Return the start of the `width` characters that contain the most different matches.

    One pass over the matches, with a pointer to either end of the window.
    """
    words = [text[first:last].lower() for first, last in matches]
    held: Counter[str] = Counter()
    best = 0
    most = -1
    left = 0
    right = 0
    for anchor in [0, *(first for first, _ in matches)]:
        begin = max(0, min(anchor - width // 6, len(text) - width))
        while right < len(matches) and matches[right][1] <= begin + width:
            held[words[right]] += 1
            right += 1
        while left < right and matches[left][0] < begin:
            held[words[left]] -= 1
            if not held[words[left]]:
                del held[words[left]]
            left += 1
        if len(held) > most:
            best = begin
            most = len(held)
    return best


def _fold(text: str) -> tuple[str, Callable[[int], int]]:
    """Fold runs of white space and control characters into single blanks, and strip the text.

    A line break within Chinese or Japanese words becomes no blank. Returns the folded text, and a
    function from an offset in `text` to the offset in the folded text.
    """
    parts: list[str] = []
    piece_starts = [0]
    piece_ends: list[int] = []
    shifts = [0]
    for match in _FOLDED.finditer(text):
        blank = " " if match["blank"] and match.start() else ""
        parts += [text[piece_starts[-1] : match.start()], blank]
        piece_ends.append(match.start())
        piece_starts.append(match.end())
        shifts.append(shifts[-1] + len(match[0]) - len(blank))
    parts.append(text[piece_starts[-1] :])
    piece_ends.append(len(text))

    def fold_offset(offset: int) -> int:
        piece = bisect_right(piece_starts, offset) - 1
        return min(offset, piece_ends[piece]) - shifts[piece]

    return "".join(parts).rstrip(" "), fold_offset
