"""A text in pieces that fit into a model's context."""

from __future__ import annotations

from collections.abc import Callable

from engine.queries.rules.sentences import split_sentences


def windows(text: str, room: int, count: Callable[[str], int]) -> list[str]:
    """Pieces of `text` of at most `room` tokens by `count`, cut between sentences where that is
    possible.

    Every piece is a run of characters of `text`.
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
    """Two pieces of `text`, cut where the sentence begins that is nearest to its middle; of a
    single sentence, within it.
    """
    starts = [sentence.start for sentence in split_sentences(text)[1:]] or [_middle(text)]
    cut = min(starts, key=lambda start: abs(2 * start - len(text)))
    return [text[:cut], text[cut:]]


def _middle(text: str) -> int:
    """A place to cut without sentences: a space before the middle, if there is one nearby."""
    middle = len(text) // 2
    space = text.rfind(" ", 1, middle)
    return space if space > middle // 2 else middle


def _last(fits: Callable[[int, int], bool], first: int, end: int) -> int:
    """The last of `first` … `end` - 1 that fits with all from the first on, or that.

    Few are tried: counting may mean to ask a server.
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
    """A piece without a place to cut, such as a long table row, is halved until it fits."""
    if count(text) <= room or len(text) < 2:
        return [text] if text.strip() else []
    cut = _middle(text)
    return _halved(text[:cut], room, count) + _halved(text[cut:], room, count)
