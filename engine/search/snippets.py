"""The part of a chunk that best shows why it was found."""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[int, int]


def snippet(text: str, matches: Sequence[Span], width: int = 300) -> tuple[str, tuple[Span, ...]]:
    """At most about `width` characters of `text` with the most matches, and the matches' spans within them.

    `matches` are (start, end) spans in `text`, in order. White space is folded; cut ends carry an ellipsis.
    """
    start, end = _window(text, matches, width)
    before = "… " if text[:start].strip() else ""
    after = " …" if text[end:].strip() else ""
    body, positions = _fold(text[start:end])
    marks = []
    for first, last in matches:
        if start <= first and last <= end and last > first:
            left, right = positions[first - start], positions[last - start - 1] + 1
            marks.append((left + len(before), right + len(before)))
    return before + body + after, tuple(marks)


def _window(text: str, matches: Sequence[Span], width: int) -> Span:
    """The stretch of at most `width` characters, cut at white space, that holds most matches (the earliest such)."""
    if len(text) <= width:
        return 0, len(text)
    best, most = 0, -1
    for anchor in [0, *(first for first, _ in matches)]:
        begin = max(0, min(anchor - width // 6, len(text) - width))
        held = len({text[a:b].lower() for a, b in matches if a >= begin and b <= begin + width})
        if held > most:
            best, most = begin, held
    end = best + width
    while 0 < best and not text[best - 1].isspace() and not text[best].isspace() and best < end - width // 2:
        best += 1
    while end < len(text) and not text[end].isspace() and end > best + width // 2:
        end -= 1
    return best, end


def _fold(text: str) -> tuple[str, list[int]]:
    """`text` with runs of white space as one blank and stripped, and for each old position its new one."""
    folded: list[str] = []
    positions = []
    for char in text:
        if char.isspace():
            if folded and folded[-1] != " ":
                folded.append(" ")
            positions.append(max(0, len(folded) - 1))
        else:
            folded.append(char)
            positions.append(len(folded) - 1)
    while folded and folded[-1] == " ":
        folded.pop()
    return "".join(folded), positions
