"""Search for strings in a corpus regardless of white space."""

# All documents' code points without white space lie in one uint32 array. Hashes of every window of
# 1, 2, 4 … 32 code points come from doubling (`_hash`). A needle is looked up by its anchor, the
# hash of the longest window that fits into it, and then compared in full. So all needles together
# cost one pass over the corpus per window length.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Hashes = NDArray[np.uint64]

# This is no code point, so no match crosses from one document to another.
_BORDER = np.uint32(0xFFFFFFFF)
_BASE = 0x9E3779B97F4A7C15
"""B of the hashes: 2^64 divided by the golden ratio, an odd number with well-mixed bits."""
_WINDOWS = (
    1,
    2,
    4,
    8,
    16,
    32,
)
"""Lengths of windows, in code points."""
_TABLE_BITS = 20
_SHIFT = np.uint64(64 - _TABLE_BITS)
"""Shifts a hash so that only its top `_TABLE_BITS` bits are left."""
BLOCK = 1_000_000
# Whether each code point up to U+3000, the last space, is white space.
_SPACES = np.zeros(0x3001, dtype=bool)
_SPACES[[code for code in range(0x3001) if chr(code).isspace()]] = True


class Occurrence(NamedTuple):
    """Where a string occurs: the number of the text, and offsets in it without white space."""

    text: int
    start: int
    end: int


class CompactTexts:
    """Texts without white space, searchable for many strings at once.

    `block`: the number of characters that are searched at once.
    """

    def __init__(self, texts: Sequence[str], block: int = BLOCK) -> None:
        self._block = block
        self._lengths: list[int] = []
        self._spaces: list[NDArray[np.uint32]] = []  # offsets of the white space in each text
        border = np.array([_BORDER])
        parts: list[Codes] = [border[:0]]
        starts = [0]
        for text in texts:
            codes = _codes(text)
            is_space = _find_spaces(codes)
            compact = codes[~is_space]
            self._lengths.append(len(codes))
            self._spaces.append(np.flatnonzero(is_space).astype(np.uint32))
            parts += [compact, border]
            starts.append(starts[-1] + len(compact) + 1)
        self._starts = np.array(starts)
        self._text: Codes = np.concatenate(parts)

    def compact_span(
        self,
        text: int,
        start: int,
        end: int,
    ) -> tuple[int, int]:
        """Return a span of offsets in text number `text`, counted without white space."""
        length = self._lengths[text]
        start = min(max(start, 0), length)
        end = min(max(end, 0), length)
        before_start, before_end = np.searchsorted(self._spaces[text], (start, end)).tolist()
        return start - before_start, end - before_end

    def find(self, needles: Iterable[str]) -> dict[str, list[Occurrence]]:
        """Return each needle's occurrences in order, also overlapping ones.

        Needles are compared without white space; those that are then empty have no occurrence.
        """
        codes_of = {needle: _codes("".join(needle.split())) for needle in needles}
        occurrences: dict[str, list[Occurrence]] = {needle: [] for needle in codes_of}
        for window, needles_of in _group_by_anchor(codes_of).items():
            anchors = np.array(sorted(needles_of), dtype=np.uint64)
            for position, anchor in self._find_anchors(window, anchors):
                for needle in needles_of[anchor]:
                    codes = codes_of[needle]
                    if not self._matches(position, codes):
                        continue
                    text, start = self._locate(position)
                    occurrences[needle].append(Occurrence(text, start, start + len(codes)))
        return occurrences

    def _matches(self, position: int, codes: Codes) -> bool:
        """Return whether the corpus holds these code points at a position."""
        return np.array_equal(self._text[position : position + len(codes)], codes)

    def _locate(self, position: int) -> tuple[int, int]:
        """Return the number of the text at a position of the corpus, and the offset in it."""
        text = int(np.searchsorted(self._starts, position, side="right")) - 1
        return text, position - int(self._starts[text])

    def _find_anchors(self, window: int, anchors: Hashes) -> Iterator[tuple[int, int]]:
        """Yield (position, hash) of windows whose hash is among the sorted `anchors`."""
        # A table of their top bits rules out most windows before the slower binary search.
        table = np.zeros(1 << _TABLE_BITS, dtype=bool)
        table[anchors >> _SHIFT] = True
        for start in range(0, len(self._text), self._block):
            # The windows that begin in a block end in the next one.
            end = start + self._block + window - 1
            block = self._text[start:end]
            hashes = _hash(block, window)
            likely = np.flatnonzero(table[hashes >> _SHIFT])
            likely_hashes = hashes[likely]
            # Searching without the last anchor gives a hash above all anchors a valid index, too.
            nearest = np.searchsorted(anchors[:-1], likely_hashes)
            is_anchor = anchors[nearest] == likely_hashes
            for position in likely[is_anchor].tolist():
                yield start + position, int(hashes[position])


def _group_by_anchor(needles: Mapping[str, Codes]) -> dict[int, dict[int, list[str]]]:
    """Return window → anchor → needles.

    The window is the longest that fits into the needle, the anchor the hash of its beginning.
    """
    groups: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for needle, codes in needles.items():
        if len(codes):
            window = max(size for size in _WINDOWS if size <= len(codes))
            (anchor,) = _hash(codes[:window], window).tolist()
            groups[window][anchor].append(needle)
    return groups


def _hash(codes: Codes, window: int) -> Hashes:
    """Return (len(codes) - window + 1,) hashes of all windows, mixed so that the top bits vary.

    h_1(i) = code i, h_2w(i) = h_w(i) · B^w + h_w(i + w) mod 2^64.
    """
    hashes = codes.astype(np.uint64)
    size = 1
    power = _BASE  # B^size
    while size < window:
        hashes = hashes[:-size] * np.uint64(power) + hashes[size:]
        size = 2 * size
        power = power * power % 2**64
    if len(hashes):
        return hashes * np.uint64(_BASE)
    return hashes


def _codes(text: str) -> Codes:
    """Return the code points of a text (n,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _find_spaces(codes: Codes) -> NDArray[np.bool_]:
    """Tell which code points (n,) are white space, as `str.split` sees them."""
    last = len(_SPACES) - 1
    is_space: NDArray[np.bool_] = _SPACES[np.minimum(codes, last)]
    return is_space & (codes <= last)
