"""Cutting a text into pieces that fit into a model's context."""

from __future__ import annotations

from collections.abc import Callable

from engine.queries.rules.sentences import split_sentences


def split_to_fit(
    text: str,
    room: int,
    count: Callable[[str], int],
) -> list[str]:
    """Return pieces of `text` of at most `room` tokens each, cut between sentences if possible.

    `count` returns the tokens of a text. Every piece is a contiguous part of `text`.
    """
    if count(text) <= room:
        return [text]
    pieces: list[str] = []
    sentences = split_sentences(text)
    first = 0

    def cut_piece(first: int, last: int) -> str:
        start = sentences[first].start
        return text[start : sentences[last].end]

    def fits(first: int, last: int) -> bool:
        return count(cut_piece(first, last)) <= room

    while first < len(sentences):
        last = _find_last_fitting(
            fits,
            first,
            len(sentences),
        )
        # A single sentence may be too long.
        pieces += _halve_to_fit(
            cut_piece(first, last),
            room,
            count,
        )
        first = last + 1
    return pieces


def halves(text: str) -> list[str]:
    """Return two pieces of `text`, cut at the beginning of the sentence nearest to the middle.

    A text of one sentence is cut near its middle, at a space if possible.
    """
    middle = len(text) / 2
    later_sentences = split_sentences(text)[1:]
    starts = [sentence.start for sentence in later_sentences] or [_find_middle(text)]
    cut = min(starts, key=lambda start: abs(start - middle))
    return [text[:cut], text[cut:]]


def _find_middle(text: str) -> int:
    """Return a place to cut a text without sentences: a space near the middle, if there is one."""
    middle = len(text) // 2
    space = text.rfind(" ", 1, middle)
    return space if space > middle // 2 else middle


def _find_last_fitting(
    fits: Callable[[int, int], bool],
    first: int,
    end: int,
) -> int:
    """Return the last index from `first` to `end` - 1 up to which the sentences fit together.

    Returns `first` even if that sentence alone does not fit. `fits(first, last)` is called rarely,
    since counting tokens may take a request to a server.
    """
    # Steps that double as long as the sentences fit, then halve.
    last = first
    step = 1
    while last + step < end and fits(first, last + step):
        last += step
        step *= 2
    while step > 1:
        step //= 2
        if last + step < end and fits(first, last + step):
            last += step
    return last


def _halve_to_fit(
    text: str,
    room: int,
    count: Callable[[str], int],
) -> list[str]:
    """Halve a piece without sentence boundaries, such as a long table row, until its parts fit."""
    if count(text) <= room or len(text) < 2:
        return [text] if text.strip() else []
    cut = _find_middle(text)
    first = _halve_to_fit(
        text[:cut],
        room,
        count,
    )
    return first + _halve_to_fit(text[cut:], room, count)
