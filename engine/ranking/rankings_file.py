"""Ranked lists on disk: three .npy files, and the version of their format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.arrays import Ids
from engine.core.errors import DamagedError
from engine.metrics.relevance import pad_rows

Scores = NDArray[np.float32]

VERSION = 1
ABSENT = -1
"""Chunk id of padding."""
_META = "rankings.json"
_TYPES: dict[str, np.dtype[Any]] = {
    "query_ids": np.dtype(np.int64),
    "ids": np.dtype(np.int64),
    "scores": np.dtype(np.float32),
}


@dataclass(frozen=True, slots=True)
class RankedLists:
    """The best chunks of n queries, best first.

    `query_ids` (n,) int64; `ids` (n, k) int64 chunk ids, padded with -1; `scores` (n, k) float32,
    padded with -inf, so that a softmax gives padding nothing.
    """

    query_ids: Ids
    ids: Ids
    scores: Scores

    def __post_init__(self) -> None:
        if fault := self._find_fault():
            raise ValueError(fault)

    def __len__(self) -> int:
        return len(self.query_ids)

    @property
    def lengths(self) -> Ids:
        """The number of chunks in each list (n,)."""
        counts: Ids = np.count_nonzero(self.ids >= 0, axis=1).astype(np.int64)
        return counts

    @classmethod
    def from_lists(cls, query_ids: Sequence[int], lists: Sequence[tuple[Any, Any]]) -> RankedLists:
        """Build from a pair of equally long sequences (ids, scores) for each query."""
        ids = pad_rows(
            [list_ids for list_ids, _ in lists],
            ABSENT,
            np.int64,
        )
        scores = pad_rows(
            [list_scores for _, list_scores in lists],
            -np.inf,
            np.float32,
        )
        return cls(
            np.asarray(query_ids, dtype=np.int64),
            ids,
            scores,
        )

    def save(self, folder: Path) -> None:
        """Write into a folder, which is created if missing. Raises OSError if the disk refuses."""
        folder.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        for name, dtype in _TYPES.items():
            array = np.asarray(getattr(self, name), dtype)
            np.save(
                folder / f"{name}.npy",
                array,
                allow_pickle=False,
            )
        (folder / _META).write_text(json.dumps({"version": VERSION}), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RankedLists:
        """Read what `save` wrote. Raises DamagedError if a file is missing or invalid."""
        try:
            meta = json.loads((folder / _META).read_text(encoding="utf-8"))
            if meta["version"] != VERSION:
                raise ValueError(f"format version {meta['version']}, this program reads {VERSION}")
            arrays = {}
            for name, dtype in _TYPES.items():
                arrays[name] = np.load(folder / f"{name}.npy", allow_pickle=False)
                if arrays[name].dtype != dtype:
                    raise ValueError("the numbers are of another type")
            return cls(**arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            raise DamagedError(
                f"The ranked lists in {folder} cannot be read.",
                f"{type(error).__name__}: {error}",
                "Delete that folder; the next run builds the lists again.",
                code="artifact-damaged",
                stage="rank",
                command="run",
            ) from error

    def _find_fault(self) -> str:
        """Return what is wrong with the arrays, empty if nothing is."""
        shapes = (
            self.query_ids.shape,
            self.ids.shape,
            self.scores.shape,
        )
        if self.ids.ndim != 2 or shapes != (self.ids.shape[:1], self.ids.shape, self.ids.shape):
            return f"shapes do not fit: {shapes}"
        if len(np.unique(self.query_ids)) != len(self):
            return "a query id occurs twice"
        if (self.ids < ABSENT).any():
            return "a chunk id is below -1"
        present = self.ids >= 0
        if (present[:, 1:] & ~present[:, :-1]).any():
            return "padding stands before a chunk"
        if not np.isfinite(self.scores[present]).all():
            return "a score is not a finite number"
        return ""
