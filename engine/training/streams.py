"""The streams of random numbers of a training."""

from __future__ import annotations

from enum import IntEnum


class Stream(IntEnum):
    """A draw, whose random numbers come from [seed, stream, step or epoch].

    So no draw changes another one, and a resumed training draws the same. Another number changes
    the results of a seed.
    """

    UNITS = 1
    NEGATIVES = 2
    HELDOUT = 3
    SHARED_CHUNKS = 5
    LENGTH_SAMPLE = 6
    EVERYDAY_UNITS = 8
    OTHER_UNITS = 9
    PRETRAINING_TEXTS = 11
    MASKS = 12


def torch_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of torch's generator, which draws a step's dropout.

    No two steps of trainings with different seeds share one up to a million steps, and no two
    processes (`rank`) do.
    """
    return seed * 1_000_003 + step + rank * 2**50
