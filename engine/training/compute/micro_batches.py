"""Which texts of a step run through the model together: few distinct shapes, little padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LENGTH_GRID = 16
COUNT_GRID = 4


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """`places` (b,): places in the step's batch.

    `prompt_length`: leading tokens that pooling may leave out.
    """

    places: npt.NDArray[np.intp]
    prompt_length: int = 0


def grid_length(length: int) -> int:
    """The padded length of a micro-batch whose longest text has `length` tokens: the next
    multiple of 16.
    """
    return -(-length // LENGTH_GRID) * LENGTH_GRID


def micro_batches(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    budget: int,
    *,
    prompt_length: int = 0,
    offset: int = 0,
) -> list[MicroBatch]:
    """Texts by length, longest first, cut so that count × padded length ≤ `budget` (a longer
    text stands alone).

    Lengths are padded to a multiple of 16 and counts cut to a multiple of 4, because oneDNN
    compiles and keeps kernels for every shape that it meets in bfloat16 (docs/log/training.md).
    `offset` is added to the places.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    found: list[MicroBatch] = []
    start = 0
    while start < len(order):
        count = min(
            max(1, budget // max(1, grid_length(int(lengths[order[start]])))), len(order) - start
        )
        if count >= COUNT_GRID:
            count -= count % COUNT_GRID
        found.append(MicroBatch(order[start : start + count] + offset, prompt_length))
        start += count
    return found
