"""Cutting a text into pieces that fit into a model's context."""

from __future__ import annotations

from collections.abc import Callable

from engine.queries.rules.sentences import split_sentences


def windows(text: str, room: int, count: Callable[[str], int]) -> list[str]:
    """Return pieces of `text` of at most `room` tokens each, cut between sentences if possible.

    `count` returns the tokens of a text. Every piece is a contiguous part of `text`.
    """
    if count(text) <= room:
        return [text]
    found: list[str] = []
    sentences = split_sentences(text)
    first = 0

    def fits(first: int, last: int) -> bool:
        return count(text[sentences[first].start : sentences[last].end]) <= room

    while first < len(sentences):
        last = _last(fits, first, len(sentences))
        found += _halved(text[sentences[first].start : sentences[last].end], room, count)
        first = last + 1
    return found


def halves(text: str) -> list[str]:
    """Return two pieces of `text`, cut at the beginning of the sentence nearest to the middle.

    A single sentence is cut within.
    """
    starts = [sentence.start for sentence in split_sentences(text)[1:]] or [_middle(text)]
    cut = min(starts, key=lambda start: abs(2 * start - len(text)))
    return [text[:cut], text[cut:]]


def _middle(text: str) -> int:
    """Return a place to cut a text without sentences: a space near the middle, if there is one."""
    middle = len(text) // 2
    space = text.rfind(" ", 1, middle)
    return space if space > middle // 2 else middle


def _last(fits: Callable[[int, int], bool], first: int, end: int) -> int:
    """Return the last index from `first` to `end` - 1 up to which the sentences fit together.

    It is `first` if not even that sentence fits. Few are tried, since counting may take a request
    to a server.
    """
    last = first
    step = 1
    while last + step < end and fits(first, last + step):
        last = last + step
        step = 2 * step
    while step > 1:
        step //= 2
        if last + step < end and fits(first, last + step):
            last += step
    return last


def _halved(text: str, room: int, count: Callable[[str], int]) -> list[str]:
    """Halve a piece without sentence boundaries, such as a long table row, until it fits."""
    if count(text) <= room or len(text) < 2:
        return [text] if text.strip() else []
    cut = _middle(text)
    return _halved(text[:cut], room, count) + _halved(text[cut:], room, count)
