"""A text in pieces that fit into a model's context."""

from __future__ import annotations

from collections.abc import Callable

from engine.queries.sentences import split_sentences


def windows(text: str, room: int, count: Callable[[str], int]) -> list[str]:
    """Pieces of `text` of at most `room` tokens by `count`, cut between sentences where that is possible.

    Every piece is a run of characters of `text`. ValueError unless `room` is at least 8.
    """
    if room < 8:
        raise ValueError(f"room for {room} tokens is too little")
    if count(text) <= room:
        return [text]
    found: list[str] = []
    start = end = 0
    for sentence in split_sentences(text):
        if end > start and count(text[start : sentence.end]) > room:
            found += _halved(text[start:end], room, count)
            start = sentence.start
        end = sentence.end
    return found + _halved(text[start:end], room, count)


def _halved(text: str, room: int, count: Callable[[str], int]) -> list[str]:
    """A piece without a place to cut, such as a long table row, is halved until it fits."""
    if count(text) <= room or len(text) < 2:
        return [text] if text.strip() else []
    middle = len(text) // 2
    space = text.rfind(" ", 1, middle)
    cut = space if space > middle // 2 else middle
    return _halved(text[:cut], room, count) + _halved(text[cut:], room, count)
