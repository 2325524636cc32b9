"""Judged rankings as arrays: grades in rank order, and the grades of an ideal ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.arrays import Doubles

Ints = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Relevance:
    """Graded relevance of q rankings.

    `ranked` (q, depth): grades of the retrieved items in rank order, 0 for an irrelevant item and
    for padding. `ideal` (q, width): grades of all relevant items of each query, highest first,
    padded with 0.
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
        """The number of relevant items of each query (q,)."""
        counts: Ints = np.count_nonzero(self.ideal > 0, axis=1).astype(np.int64)
        return counts

    def at(self, k: int) -> Ints:
        """Return the grades of the first k ranks (q, min(k, depth)). Raises ValueError if k < 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        return self.ranked[:, :k]

    @classmethod
    def from_lists(
        cls, ranked: Sequence[Sequence[int]], ideal: Sequence[Sequence[int]]
    ) -> Relevance:
        """Build from ragged lists of grades; `ideal` in any order, only grades above 0 count."""
        clipped = [[max(grade, 0) for grade in grades] for grades in ranked]
        return cls(pad_rows(clipped, 0, np.int64), _ideal_grades(ideal))

    @classmethod
    def from_rankings(cls, ids: ArrayLike, judgments: Sequence[Mapping[int, int]]) -> Relevance:
        """Build from rankings by item id (q, depth), padded with -1, and each query's grades by id.

        A relevant item that no ranking can contain may have an id below -1: it counts only in the
        ideal. Raises ValueError if `ids` and `judgments` differ in length, or if a ranking names an
        item twice.
        """
        rankings = np.asarray(ids, dtype=np.int64)
        if rankings.ndim != 2 or len(rankings) != len(judgments):
            raise ValueError(
                f"{len(judgments)} judgments do not fit rankings of shape {rankings.shape}"
            )
        refuse_duplicates(rankings)
        ranked = np.zeros(rankings.shape, dtype=np.int64)
        for row, grades in enumerate(judgments):
            relevant = {item: grade for item, grade in grades.items() if grade > 0 and item >= 0}
            ranked[row] = [relevant.get(item, 0) for item in rankings[row].tolist()]
        ideal = _ideal_grades([list(grades.values()) for grades in judgments])
        return cls(ranked, ideal)


def _ideal_grades(rows: Sequence[Sequence[int]]) -> Ints:
    """Return each row's grades above 0, highest first, padded with 0."""
    ideal = []
    for grades in rows:
        relevant = [grade for grade in grades if grade > 0]
        ideal.append(sorted(relevant, reverse=True))
    return pad_rows(ideal, 0, np.int64)


def refuse_duplicates(ids: Ints) -> None:
    """Raise ValueError if a row of `ids` (q, depth) names an item (not -1) twice."""
    ordered = np.sort(ids, axis=1)
    following = ordered[:, 1:]
    repeated = (following == ordered[:, :-1]) & (following >= 0)
    if repeated.any():
        row, column = np.argwhere(repeated)[0]
        raise ValueError(f"ranking {row} names item {following[row, column]} twice")


def pad_rows(
    rows: Sequence[ArrayLike], fill: float, dtype: type[Number], width: int | None = None
) -> NDArray[Number]:
    """Return ragged rows as one array (q, width), filled at the end and cut at `width`.

    None: as wide as the longest row.
    """
    arrays = [np.asarray(row, dtype)[:width] for row in rows]
    if width is None:
        width = max(map(len, arrays), default=0)
    padded = np.full(
        (len(arrays), width),
        fill,
        dtype,
    )
    for index, row in enumerate(arrays):
        padded[index, : len(row)] = row
    return padded


def ratio(part: ArrayLike, whole: ArrayLike) -> Doubles:
    """Return part / whole element by element, 0 where the whole is 0."""
    numerator = np.asarray(part, dtype=np.float64)
    denominator = np.asarray(whole, dtype=np.float64)
    zeros = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    shares: Doubles = np.divide(
        numerator,
        denominator,
        out=zeros,
        where=denominator > 0,
    )
    return shares
