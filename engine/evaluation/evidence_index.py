"""Search for strings in a corpus regardless of white space."""

# All documents' code points without white space lie in one uint32 array. Hashes of every window of
# 1, 2, 4 … 32 code points come from doubling, h_2w(i) = h_w(i) · B^w + h_w(i + w) mod 2^64. A
# needle is looked up by the longest window that fits into it and then compared in full. So all
# needles together cost one pass over the corpus per window length.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Hashes = NDArray[np.uint64]

# This is no code point, so no match crosses from one document to another.
_BORDER = np.uint32(0xFFFFFFFF)
_BASE = 0x9E3779B97F4A7C15
_WINDOWS = (1, 2, 4, 8, 16, 32)
BLOCK = 1_000_000
_SPACES = np.zeros(0x3001, dtype=bool)
_SPACES[[code for code in range(0x3001) if chr(code).isspace()]] = True


class CompactTexts:
    """Texts without white space, searchable for many strings at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._lengths: list[int] = []
        self._spaces: list[NDArray[np.uint32]] = []  # offsets of the white space in each text
        parts: list[Codes] = []
        starts = [0]
        for text in texts:
            codes = _codes(text)
            spaces = _SPACES[np.minimum(codes, len(_SPACES) - 1)] & (codes < len(_SPACES))
            compact = codes[~spaces]
            self._lengths.append(len(codes))
            self._spaces.append(np.flatnonzero(spaces).astype(np.uint32))
            parts.append(compact)
            parts.append(np.array([_BORDER]))
            starts.append(starts[-1] + len(compact) + 1)
        self._starts = np.array(starts)
        self._text: Codes = np.zeros(0, np.uint32)
        if parts:
            self._text = np.concatenate(parts)

    def compact_span(self, text: int, start: int, end: int) -> tuple[int, int]:
        """Return a span of offsets in text number `text`, counted without white space."""
        length = self._lengths[text]
        start = min(max(start, 0), length)
        end = min(max(end, 0), length)
        spaces_before = np.searchsorted(self._spaces[text], (start, end))
        return start - int(spaces_before[0]), end - int(spaces_before[1])

    def find(self, needles: Iterable[str]) -> dict[str, list[tuple[int, int, int]]]:
        """Return each needle's occurrences (text number, start, end) in order, also overlapping.

        Offsets are compact. Needles are compared without white space; those that are then empty
        have no occurrence.
        """
        wanted = {needle: _codes("".join(needle.split())) for needle in dict.fromkeys(needles)}
        by_window: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for needle, codes in wanted.items():
            if len(codes):
                window = max(size for size in _WINDOWS if size <= len(codes))
                by_window[window][int(_hash(codes[:window], window)[0])].append(needle)
        occurrences: dict[str, list[tuple[int, int, int]]] = {needle: [] for needle in wanted}
        for window, needles_of in by_window.items():
            anchors = np.array(sorted(needles_of), dtype=np.uint64)
            for position, anchor in self._find_anchors(window, anchors):
                for needle in needles_of[anchor]:
                    if self._matches(position, wanted[needle]):
                        text = int(np.searchsorted(self._starts, position, side="right")) - 1
                        start = position - int(self._starts[text])
                        end = start + len(wanted[needle])
                        occurrences[needle].append((text, start, end))
        return occurrences

    def _matches(self, position: int, codes: Codes) -> bool:
        """Tell whether the corpus holds these code points at a position."""
        return np.array_equal(self._text[position : position + len(codes)], codes)

    def _find_anchors(self, window: int, anchors: Hashes) -> Iterator[tuple[int, int]]:
        """Yield (position, hash) of windows whose hash is among the sorted `anchors`."""
        # The top 20 bits rule out most windows before the slower binary search.
        table = np.zeros(1 << 20, dtype=bool)
        table[anchors >> np.uint64(44)] = True
        for start in range(0, len(self._text), BLOCK):
            hashes = _hash(self._text[start : start + BLOCK + window - 1], window)
            likely = np.flatnonzero(table[hashes >> np.uint64(44)])
            nearest = np.minimum(np.searchsorted(anchors, hashes[likely]), len(anchors) - 1)
            matching = likely[anchors[nearest] == hashes[likely]]
            for position in matching.tolist():
                yield start + position, int(hashes[position])


def _hash(codes: Codes, window: int) -> Hashes:
    """Return (len(codes) - window + 1,) hashes of all windows, mixed so that the top bits vary."""
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
