"""One file of an index: chunk ids, rows, and the signs of the rows' numbers, mapped rather than read. It is written once.

Layout, little-endian: ids (n, int64), signs (w, n, uint64), rows (n, D).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = 64  # bits
MIN_BITS = 256
_BLOCK = 16_384


@dataclass(frozen=True, slots=True)
class Signs:
    """On which side of hyperplanes through the `centre` (D,) of an index's rows a row lies: bits whose Hamming distance grows
    with the angle between rows (Charikar 2002). The planes are those of the axes; random ones, where `MIN_BITS` are more.
    """

    centre: NDArray[np.float32]

    @property
    def words(self) -> int:
        """w, the words of a row."""
        return -(-max(len(self.centre), MIN_BITS) // WORD)

    def of(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """The signs (w, m) of rows (m, D)."""
        sides = rows.astype(np.float32) - self.centre
        if len(self.centre) < MIN_BITS:
            planes = np.random.default_rng(0).standard_normal((len(self.centre), MIN_BITS), dtype=np.float32)
            sides = sides @ planes
        bits = np.zeros((len(rows), self.words * 8), np.uint8)
        packed = np.packbits(sides > 0, axis=1)
        bits[:, : packed.shape[1]] = packed
        return np.ascontiguousarray(bits.view(np.uint64).T)


@dataclass(frozen=True, slots=True)
class Part:
    """`ids` (n,), `signs` (w, n) and `rows` (n, D)."""

    ids: NDArray[np.int64]
    signs: NDArray[np.uint64]
    rows: NDArray[Any]

    def distances(self, signs: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """In how many signs each row differs from a query's (w, 1): (n,)."""
        found = np.zeros(len(self.ids), np.uint16)
        other, count = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint8)  # in the processor's cache
        for start in range(0, len(found), _BLOCK):
            here = found[start : start + _BLOCK]
            differs, counted = other[: len(here)], count[: len(here)]
            for mine, its in zip(self.signs, signs[:, 0], strict=True):
                np.bitwise_xor(mine[start : start + _BLOCK], its, out=differs)
                here += np.bitwise_count(differs, out=counted)
        return found


def part_size(count: int, width: int, dtype: np.dtype[Any], words: int) -> int:
    """Bytes of a file."""
    return count * (8 + 8 * words + width * dtype.itemsize)


def map_part(path: Path, count: int, width: int, dtype: np.dtype[Any], words: int) -> Part:
    """A file whose size has been checked."""

    def at(offset: int, kind: Any, *shape: int) -> Any:
        return np.asarray(np.memmap(path, dtype=kind, mode="r", offset=offset, shape=shape))

    signs = 8 * count
    rows = signs + 8 * words * count
    return Part(at(0, "<i8", count), at(signs, "<u8", words, count), at(rows, dtype.newbyteorder("<"), count, width))


def write_part(path: Path, ids: NDArray[np.int64], blocks: Iterable[NDArray[Any]], signs: Signs) -> None:
    """Write rows that come in `blocks` (m, D), as they are to be stored. Raises OSError."""
    made: list[NDArray[np.uint64]] = []
    with path.open("wb") as file:
        file.write(ids.astype("<i8").tobytes())
        file.seek(8 * len(ids) * (1 + signs.words))
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)
            made.append(signs.of(block))
        file.seek(8 * len(ids))
        for word in range(signs.words):
            for one in made:
                file.write(one[word].tobytes())
    path.chmod(0o600)
