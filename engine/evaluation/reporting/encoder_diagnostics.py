"""What the encoders of an evaluation look like, gathered while they are at hand: diagnostics, densities, and their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.core.records import Chunk
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.reporting.densities import Similarities, densities, similarities_of_kinds
from engine.evaluation.reporting.diagnostics import Diagnostics, Floats, Ids, Ranked, describe
from engine.evaluation.reporting.geometry import Place, Plane, place_of


class EncoderDiagnostics:
    """By one of `sets`, the `telling` one: the first with chunks as its answers, else any that can be measured.

    `keys`: of all chunks, ascending.
    """

    def __init__(self, sets: Sequence[QuerySet], keys: Ids, seed: int) -> None:
        self.telling = _telling(sets)
        self.diagnostics: dict[str, Diagnostics] = {}
        self._keys, self._seed = keys, seed
        self._found: dict[str, Similarities] = {}
        self._places: list[Place] = []
        self._plane: tuple[QuerySet, int] | None = None

    def take(self, name: str, one: QuerySet, asked: Floats, chunks: Floats, offsets: Floats | None = None) -> None:
        """An encoder that has ranked `one`: unit vectors of its queries `asked` (q, d) and of all `chunks` (N, d).

        `offsets` (N,): what was taken from the chunks' cosines in ranking.
        """
        if one is not self.telling:
            return
        ranked = Ranked(asked, one.rankings[name], one.scores[name], offsets)
        self.diagnostics[name] = describe(ranked, one.judgments, chunks, self._keys, self._seed)
        found = similarities_of_kinds(ranked, one.judgments, chunks, self._keys, self._seed)
        if found:
            self._found[name] = found

    def place(
        self, name: str, strength: float | None, one: QuerySet, asked: Floats, chunks: Floats, pool: Sequence[Chunk]
    ) -> None:
        """A candidate's place in the plane, by the unit vectors of `one`'s queries and of the chunks of `pool`."""
        keys = np.array([chunk.id for chunk in pool], dtype=np.int64)
        found = place_of(name, strength, asked, one.judgments, chunks, keys, self._seed)
        if found:
            self._places.append(found)
            self._plane = one, len(pool)

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that was taken already."""
        if system in self.diagnostics:
            self.diagnostics[name] = self.diagnostics[system]
        if system in self._found:
            self._found[name] = self._found[system]

    def similarities(self) -> dict[str, Any] | None:
        """As `densities` gives them."""
        return densities(self._found, self.telling.kind, self.telling.name) if self.telling else None

    def plane(self) -> Plane | None:
        """Where the candidates stand; None where nothing was placed."""
        if self._plane is None:
            return None
        one, chunks = self._plane
        return Plane(one.kind, one.name, len(one.judgments), chunks, tuple(self._places))


def _telling(sets: Sequence[QuerySet]) -> QuerySet | None:
    levels = [{judgment.level for judgment in one.judgments if judgment.usable} for one in sets]
    with_chunks = [one for one, found in zip(sets, levels, strict=True) if "chunk" in found]
    return next(iter([*with_chunks, *(one for one, found in zip(sets, levels, strict=True) if found)]), None)
