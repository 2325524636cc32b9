"""The streams of random numbers of a training."""

from __future__ import annotations

from enum import IntEnum


class Stream(IntEnum):
    """A purpose for which random numbers are drawn, by a generator of its own.

    The generator is seeded by [seed, stream, step or epoch]: no draw changes another one, and a
    resumed training draws the same. Changing a number below changes the results of every seed.
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


def torch_seed(
    seed: int,
    step: int,
    rank: int,
) -> int:
    """Return the seed of torch's generator, which draws a step's dropout.

    It differs between steps, between trainings with different seeds (up to a million steps), and
    between processes (`rank`).
    """
    return seed * 1_000_003 + step + rank * 2**50
