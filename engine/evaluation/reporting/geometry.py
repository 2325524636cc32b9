"""Alignment against uniformity of base, adapted and the merges between them (METHODS.md §1 Geometry). They decide nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.evaluation.judgments import Judgment
from engine.evaluation.reporting.diagnostics import Floats, Ids
from engine.metrics.geometry import alignment, uniformity


@dataclass(frozen=True, slots=True)
class Place:
    """A candidate's place in the plane: both without unit; of the adapter at `strength` (λ), None for another's."""

    name: str
    strength: float | None
    alignment: float
    uniformity: float


@dataclass(frozen=True, slots=True)
class Plane:
    """`places` of candidates on the same `queries` (a set's `name` and `kind`) and the same `chunks`."""

    kind: str
    name: str
    queries: int
    chunks: int
    places: tuple[Place, ...]


def place_of(
    name: str, strength: float | None, asked: Floats, judgments: Sequence[Judgment], chunks: Floats, keys: Ids,
    seed: int = 0,
) -> Place | None:  # fmt: skip
    """Where a candidate stands whose unit vectors are `asked` (q, d) for queries and `chunks` (N, d), named by `keys` (N,).

    `keys` are ascending. None where fewer than two chunks, or no query with a chunk as its answer, leave nothing to say.
    """
    rows = [row for row, one in enumerate(judgments) if one.level == "chunk" and one.usable]
    if not rows or len(keys) < 2:
        return None
    answers = [np.searchsorted(keys, sorted(judgments[row].grades)) for row in rows]
    pairs = np.repeat(rows, [len(places) for places in answers])
    ratios = alignment(asked[pairs], chunks[np.concatenate(answers)], chunks)
    return Place(name, strength, float(ratios.mean()), uniformity(chunks, seed=seed)) if len(ratios) else None
