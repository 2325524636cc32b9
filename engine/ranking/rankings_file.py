"""Ranked lists on disk: three .npy files and a small JSON that says how large each must be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import DamagedError
from engine.metrics.relevance import pad_rows

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]

VERSION = 1
ABSENT = -1
_META = "rankings.json"
_TYPES: dict[str, np.dtype[Any]] = {
    "query_ids": np.dtype(np.int64),
    "ids": np.dtype(np.int64),
    "scores": np.dtype(np.float32),
}


@dataclass(frozen=True, slots=True)
class RankedLists:
    """The best chunks of n queries, best first.

    `query_ids` (n,) int64; `ids` (n, k) int64 chunk ids, padded at the end with -1; `scores` (n, k) float32, -inf where
    padded (so that a softmax gives padding nothing).
    """

    query_ids: Ids
    ids: Ids
    scores: Scores

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise ValueError(fault)

    def __len__(self) -> int:
        return len(self.query_ids)

    @property
    def lengths(self) -> Ids:
        """(n,) number of chunks in each list."""
        counts: Ids = np.count_nonzero(self.ids >= 0, axis=1).astype(np.int64)
        return counts

    @classmethod
    def from_lists(cls, query_ids: Sequence[int], lists: Sequence[tuple[Any, Any]]) -> RankedLists:
        """From one (ids, scores) pair of equally long sequences for each query."""
        if len(query_ids) != len(lists):
            raise ValueError(f"{len(query_ids)} query ids for {len(lists)} lists")
        ids = pad_rows([found for found, _ in lists], ABSENT, np.int64)
        scores = pad_rows([values for _, values in lists], -np.inf, np.float32)
        return cls(np.asarray(query_ids, dtype=np.int64), ids, scores)

    def save(self, folder: Path) -> None:
        """Write into `folder`, which is made if missing. OSError when the disk refuses."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = {}
        for name, dtype in _TYPES.items():
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
            files[name] = {"shape": list(array.shape), "bytes": (folder / f"{name}.npy").stat().st_size}
        (folder / _META).write_text(json.dumps({"version": VERSION, "files": files}, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RankedLists:
        """Read what `save` wrote. DamagedError when a file is missing, of another size or shape, or makes no sense."""
        try:
            meta = json.loads((folder / _META).read_text(encoding="utf-8"))
            if meta["version"] != VERSION:
                raise ValueError(f"format version {meta['version']}, this program reads {VERSION}")
            arrays = {name: _read(folder / f"{name}.npy", meta["files"][name], dtype) for name, dtype in _TYPES.items()}
            return cls(**arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            raise DamagedError(
                f"The ranked lists in {folder} cannot be read.", f"{type(error).__name__}: {error}",
                "Delete that folder; the next run builds the lists again.", code="artifact-damaged", stage="rank",
                command="run",
            ) from error  # fmt: skip

    def _fault(self) -> str:
        n = len(self.query_ids)
        if self.query_ids.ndim != 1 or self.ids.ndim != 2 or len(self.ids) != n or self.ids.shape != self.scores.shape:
            return f"shapes do not fit: {self.query_ids.shape}, {self.ids.shape}, {self.scores.shape}"
        if len(np.unique(self.query_ids)) != n:
            return "a query id occurs twice"
        if (self.ids < ABSENT).any():
            return "a chunk id is below -1"
        present = self.ids >= 0
        if (present[:, 1:] & ~present[:, :-1]).any():
            return "padding stands before a chunk"
        if not np.isfinite(self.scores[present]).all():
            return "a score is not a finite number"
        return ""


def _read(path: Path, expected: dict[str, Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise ValueError(f"{path.name} has {size} bytes, not {expected['bytes']}")
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    if array.dtype != dtype or list(array.shape) != expected["shape"]:
        raise ValueError(f"{path.name} holds {array.dtype} {array.shape}, not {dtype} {expected['shape']}")
    return array
