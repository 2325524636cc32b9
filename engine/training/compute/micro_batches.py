"""Micro-batches of a step: few distinct shapes, little padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LENGTH_GRID = 16
"""Lengths are padded to a multiple of this number of tokens."""
COUNT_GRID = 4
"""A micro-batch of more texts than this has a multiple of this number."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Texts that run through the model together."""

    places: npt.NDArray[np.intp]
    """(b,): the texts' indices in the step's batch."""
    prompt_length: int = 0
    """Number of leading tokens that pooling may leave out."""


def grid_length(length: int) -> int:
    """Return a text's padded length: the next multiple of `LENGTH_GRID` tokens."""
    return math.ceil(length / LENGTH_GRID) * LENGTH_GRID


def micro_batches(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    budget: int,
    *,
    prompt_length: int = 0,
    offset: int = 0,
) -> list[MicroBatch]:
    """Group texts of `lengths` tokens, longest first, so that count × padded length ≤ `budget`.

    A longer text forms a micro-batch of its own. Lengths and counts are multiples (`LENGTH_GRID`,
    `COUNT_GRID`), because oneDNN compiles and keeps kernels for every shape in bfloat16
    (docs/log/training.md). `offset` is added to the places.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    batches: list[MicroBatch] = []
    start = 0
    while start < len(order):
        longest = grid_length(int(lengths[order[start]]))
        count = max(1, budget // max(1, longest))
        count = min(count, len(order) - start)
        if count >= COUNT_GRID:
            count -= count % COUNT_GRID
        batches.append(MicroBatch(order[start : start + count] + offset, prompt_length))
        start += count
    return batches
