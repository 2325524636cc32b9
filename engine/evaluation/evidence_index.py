"""Where strings stand in a corpus once white space is removed.

All documents' code points without white space lie in one uint32 array. A hash of every window of 1,
2, 4 … 32 code points comes from doubling, h_2w(i) = h_w(i) · B^w + h_w(i + w) mod 2^64; a needle is
looked up by the longest window that fits into it and then compared in full. So all needles together
cost one pass over the corpus per window length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Hashes = NDArray[np.uint64]

_BORDER = np.uint32(0xFFFFFFFF)  # no code point, so no match crosses from document to document
_BASE = 0x9E3779B97F4A7C15
_WINDOWS = (1, 2, 4, 8, 16, 32)
BLOCK = 1_000_000
_SPACES = np.zeros(0x3001, dtype=bool)
_SPACES[[code for code in range(0x3001) if chr(code).isspace()]] = True


class CompactTexts:
    """Texts without white space, searchable for many strings at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._lengths: list[int] = []
        self._spaces: list[NDArray[np.uint32]] = []  # places of the white space in each text
        parts: list[Codes] = []
        starts = [0]
        for text in texts:
            codes = _codes(text)
            spaces = _SPACES[np.minimum(codes, len(_SPACES) - 1)] & (codes < len(_SPACES))
            self._lengths.append(len(codes))
            self._spaces.append(np.flatnonzero(spaces).astype(np.uint32))
            parts += [codes[~spaces], np.array([_BORDER])]
            starts.append(starts[-1] + len(parts[-2]) + 1)
        self._starts = np.array(starts)
        self._text: Codes = np.concatenate(parts) if parts else np.zeros(0, np.uint32)

    def compact_span(self, text: int, start: int, end: int) -> tuple[int, int]:
        """A span of original character offsets of text number `text`, counted without white
        space.
        """
        first, last = (min(max(place, 0), self._lengths[text]) for place in (start, end))
        before = np.searchsorted(self._spaces[text], (first, last))
        return first - int(before[0]), last - int(before[1])

    def find(self, needles: Iterable[str]) -> dict[str, list[tuple[int, int, int]]]:
        """Needle → its occurrences (text number, start, end), compact offsets, in order;
        overlapping ones included.

        Needles are compared without white space; one that is empty then has no occurrence.
        """
        wanted = {needle: _codes("".join(needle.split())) for needle in dict.fromkeys(needles)}
        by_window: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for needle, codes in wanted.items():
            if len(codes):
                window = max(size for size in _WINDOWS if size <= len(codes))
                by_window[window][int(_hash(codes[:window], window)[0])].append(needle)
        found: dict[str, list[tuple[int, int, int]]] = {needle: [] for needle in wanted}
        for window, anchors in by_window.items():
            for place, anchor in self._anchored(window, np.array(sorted(anchors), dtype=np.uint64)):
                for needle in anchors[anchor]:
                    size = len(wanted[needle])
                    if np.array_equal(self._text[place : place + size], wanted[needle]):
                        text = int(np.searchsorted(self._starts, place, side="right")) - 1
                        start = place - int(self._starts[text])
                        found[needle].append((text, start, start + size))
        return found

    def _anchored(self, window: int, anchors: Hashes) -> Iterator[tuple[int, int]]:
        """(place, hash) wherever the hash of the window that starts there is among `anchors`
        (sorted).
        """
        table = np.zeros(1 << 20, dtype=bool)
        table[anchors >> np.uint64(44)] = True
        for start in range(0, len(self._text), BLOCK):
            hashes = _hash(self._text[start : start + BLOCK + window - 1], window)
            likely = np.flatnonzero(table[hashes >> np.uint64(44)])
            nearest = np.minimum(np.searchsorted(anchors, hashes[likely]), len(anchors) - 1)
            for place in likely[anchors[nearest] == hashes[likely]].tolist():
                yield start + place, int(hashes[place])


def _hash(codes: Codes, window: int) -> Hashes:
    """(len(codes) - window + 1,) hashes of all windows, mixed so that the top bits vary."""
    hashes = codes.astype(np.uint64)
    size = 1
    power = _BASE
    while size < window:
        hashes = hashes[:-size] * np.uint64(power) + hashes[size:]
        size = 2 * size
        power = power * power % 2**64
    if len(hashes):
        return hashes * np.uint64(_BASE)
    return hashes


def _codes(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
