"""Partition of BM25 ranks into intervals (METHODS.md §1 Partition; BMEmbed, section 3.2)."""

from __future__ import annotations

import itertools
from typing import Literal

Scheme = Literal["fine-to-coarse", "uniform"]
Bounds = tuple[tuple[int, int], ...]

POSITIVE = 3
"""The first interval is always the ranks [0, 3): the positive."""


def partition_ranks(k: int, m: int, scheme: Scheme = "fine-to-coarse") -> Bounds:
    """Half-open intervals that cover the ranks [0, k) in order, none of them empty.

    The m - 1 intervals after the first share [3, k): in equal lengths, or each twice as long as the last. Real bounds
    are floored (in whole-number arithmetic, so exactly); one that falls on its predecessor moves up by one. With
    k < 3 + (m - 1) there are only k - 2 intervals, and with k ≤ 3 one. ValueError when k < 1 or m < 2.
    """
    if k < 1 or m < 2:
        raise ValueError(f"a partition needs k >= 1 and m >= 2, not k = {k}, m = {m}")
    if k <= POSITIVE:
        return ((0, k),)
    rest = min(m - 1, k - POSITIVE)
    bounds = [0, POSITIVE]
    for i in range(1, rest + 1):
        part, whole = (i, rest) if scheme == "uniform" else (2**i - 1, 2**rest - 1)
        bounds.append(max(POSITIVE + (k - POSITIVE) * part // whole, bounds[-1] + 1))
    return tuple(itertools.pairwise(bounds))
