"""The part of a chunk that best shows why it was found."""

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
"""What does not stay as it is: a blank between words does, which most are."""


def snippet(text: str, matches: Sequence[Span], width: int = 300) -> tuple[str, tuple[Span, ...]]:
    """At most about `width` characters of `text` with the most matches, and the matches' spans
    within them.

    `matches` are (start, end) spans in `text`, in order, without overlap. White space and control
    characters (which a terminal would obey) are folded; cut ends carry an ellipsis.
    """
    start, end = _window(text, matches, max(1, width))
    before = "… " if text[:start].strip() else ""
    after = " …" if text[end:].strip() else ""
    body, place = _fold(text[start:end])
    marks = []
    for first, last in matches:
        if start <= first and last <= end and last > first:
            left = place(first - start)
            right = min(place(last - start - 1) + 1, len(body))
            if left < right:
                marks.append((left + len(before), right + len(before)))
    return before + body + after, tuple(marks)


def first_shown(text: str, matches: Sequence[Span], width: int = 300) -> int:
    """Where in `text` the first match stands that its `snippet` shows; where the snippet begins
    when it shows none.
    """
    start, end = _window(text, matches, max(1, width))
    return next((first for first, last in matches if start <= first and last <= end), start)


def page_at(pages: Sequence[tuple[int, int, str]], offset: int) -> tuple[int, str]:
    """(number, name) of the page, slide or sheet, of at least one, that an offset within a chunk
    stands on.
    """
    _, number, name = pages[max(0, bisect_right(pages, offset, key=lambda page: page[0]) - 1)]
    return number, name


def _window(text: str, matches: Sequence[Span], width: int) -> Span:
    """The stretch of at most `width` characters that holds most different matches (the earliest
    such).

    It is cut at white space where there is some before the first match and after the last one.
    """
    if len(text) <= width:
        return 0, len(text)
    begin = fullest_window(text, matches, width)
    end = begin + width
    inside = [(first, last) for first, last in matches if first >= begin and last <= end]
    cut = inside[0][0] if inside else begin + width // 2
    if begin > 0 and not text[begin - 1].isspace():
        begin = next(
            (at for at in range(begin, cut + 1) if text[at].isspace() or text[at - 1].isspace()),
            begin,
        )
    cut = inside[-1][1] if inside else begin + width // 2
    if end < len(text):
        end = next((at for at in range(end, cut - 1, -1) if text[at].isspace()), end)
    return begin, end


def fullest_window(text: str, matches: Sequence[Span], width: int) -> int:
    """Where the stretch of `width` characters begins that holds most different matches: one
    pass, two pointers.
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
    """`text` with runs of white space and control characters as one blank and stripped, and
    where a character of it stands then. Where a line ends within Chinese or Japanese words,
    which go on over it, no blank stands.
    """
    parts = list[str]()
    at = 0
    ends = [0]
    starts = list[int]()
    shifts = [0]
    for blank in _FOLDED.finditer(text):
        put = " " if blank["blank"] and blank.start() else ""
        parts += text[at : blank.start()], put
        at = blank.end()
        starts.append(blank.start())
        ends.append(at)
        shifts.append(shifts[-1] + len(blank[0]) - len(put))
    starts.append(len(text))

    def place(character: int) -> int:
        piece = bisect_right(ends, character) - 1
        return min(character, starts[piece]) - shifts[piece]

    return "".join((*parts, text[at:])).rstrip(" "), place
