"""The working form of a judged ranking: grades in rank order beside the grades that an ideal
ranking would show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Relevance:
    """Graded relevance of q rankings.

    `ranked`: (q, depth) grades of the retrieved items in rank order, 0 for an irrelevant item and
        for padding.
    `ideal`: (q, width) grades of all relevant items of each query, highest first, padded with 0.
    """

    ranked: Ints
    ideal: Ints

    def __post_init__(self) -> None:
        if self.ranked.ndim != 2 or self.ideal.ndim != 2 or len(self.ranked) != len(self.ideal):
            raise ValueError(
                f"ranked {self.ranked.shape} and ideal {self.ideal.shape} must both be (queries, n)"
            )

    @property
    def relevant(self) -> Ints:
        """(q,) number of relevant items of each query."""
        counts: Ints = np.count_nonzero(self.ideal > 0, axis=1).astype(np.int64)
        return counts

    def at(self, k: int) -> Ints:
        """(q, min(k, depth)) grades of the first k ranks. ValueError when k < 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        return self.ranked[:, :k]

    @classmethod
    def from_lists(
        cls, ranked: Sequence[Sequence[int]], ideal: Sequence[Sequence[int]]
    ) -> Relevance:
        """From ragged lists of grades; `ideal` in any order, grades of 0 or less are not
        relevant.
        """
        positive = [
            sorted((grade for grade in grades if grade > 0), reverse=True) for grades in ideal
        ]
        shown = [[max(grade, 0) for grade in grades] for grades in ranked]
        return cls(pad_rows(shown, 0, np.int64), pad_rows(positive, 0, np.int64))

    @classmethod
    def from_rankings(cls, ids: ArrayLike, judgments: Sequence[Mapping[int, int]]) -> Relevance:
        """From rankings by item id: `ids` (q, depth), -1 for padding, and each query's item id →
        grade.

        A relevant item that no ranking can hold may stand under an id below -1: it counts in the
        ideal only.

        ValueError when the two differ in length or a ranking names an item twice.
        """
        rankings = np.asarray(ids, dtype=np.int64)
        if rankings.ndim != 2 or len(rankings) != len(judgments):
            raise ValueError(
                f"{len(judgments)} judgments do not fit rankings of shape {rankings.shape}"
            )
        refuse_duplicates(rankings)
        ranked = np.zeros(rankings.shape, dtype=np.int64)
        for row, grades in enumerate(judgments):
            positive = {item: grade for item, grade in grades.items() if grade > 0 and item >= 0}
            if positive:
                ranked[row] = _lookup(rankings[row], positive)
        ideal = [
            sorted((grade for grade in grades.values() if grade > 0), reverse=True)
            for grades in judgments
        ]
        return cls(ranked, pad_rows(ideal, 0, np.int64))


def refuse_duplicates(ids: Ints) -> None:
    """ValueError when a row of `ids` (q, depth) names an item (not -1) twice."""
    ordered = np.sort(ids, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise ValueError(f"ranking {row} names item {ordered[row, column + 1]} twice")


def _lookup(items: Ints, grades: Mapping[int, int]) -> Ints:
    keys = np.fromiter(grades.keys(), dtype=np.int64, count=len(grades))
    values = np.fromiter(grades.values(), dtype=np.int64, count=len(grades))
    order = np.argsort(keys)
    keys = keys[order]
    values = values[order]
    place = np.minimum(np.searchsorted(keys, items), len(keys) - 1)
    return np.where(keys[place] == items, values[place], 0)


def pad_rows(
    rows: Sequence[ArrayLike], fill: float, dtype: type[Number], width: int | None = None
) -> NDArray[Number]:
    """Ragged rows as one array (q, width), filled at the end, cut at `width`; None: as wide as
    the longest.
    """
    arrays = [np.asarray(row, dtype)[:width] for row in rows]
    padded = np.full(
        (len(arrays), max(map(len, arrays), default=0) if width is None else width), fill, dtype
    )
    for index, row in enumerate(arrays):
        padded[index, : len(row)] = row
    return padded


def ratio(part: ArrayLike, whole: ArrayLike) -> Floats:
    """part / whole element by element, 0 where the whole is 0."""
    numerator, denominator = np.broadcast_arrays(
        np.asarray(part, np.float64), np.asarray(whole, np.float64)
    )
    shares: Floats = np.divide(
        numerator, denominator, out=np.zeros(numerator.shape), where=denominator > 0
    )
    return shares
