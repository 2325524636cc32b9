"""A usearch index in a folder of its own, with a manifest; damage is found before it can crash native code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import DamagedError, EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT_VERSION = 1
EXACT_UP_TO = 20_000  # exact search of this many vectors takes a few ms: no need to approximate
REBUILD_SHARE = 0.2  # recall of an HNSW graph sinks with removed keys
DTYPES = {"f16": "f16", "f32": "f32", "i8": "i8"}


class VectorIndex:
    """Cosine index over chunk vectors. Made by `build` or `update`, read by `open`."""

    def __init__(self, index: Any, manifest: dict[str, Any]) -> None:
        self._index, self.manifest = index, manifest

    @classmethod
    def build(
        cls, folder: Path, ids: NDArray[np.int64], vectors: NDArray[np.float32], *, dtype: str = "f16", expansion: int = 128
    ) -> VectorIndex:
        """Write an index of `vectors` (float32, (n, d), unit norm) under keys `ids` (n,) into `folder`.

        Raises EngineError for vectors that are not finite: usearch would return them as hits.
        """
        index = _empty(vectors.shape[1], dtype, expansion)
        _add(index, ids, vectors)
        return cls._write(folder, index, dtype, expansion, removed=0)

    @classmethod
    def update(
        cls, former: Path, folder: Path, add: NDArray[np.int64], vectors: NDArray[np.float32], remove: Iterable[int]
    ) -> VectorIndex | None:
        """Write a copy of the index in `former`, with keys removed and added, into `folder`; `former` is not changed.

        None when so many keys have gone that the index must be rebuilt. Raises DamagedError like `open`.
        """
        old = cls.open(former)
        gone = list(remove)
        removed = int(old.manifest["removed"]) + len(gone)
        if removed > REBUILD_SHARE * max(1, old.count):
            return None
        if gone:
            import numpy as np

            old._index.remove(np.asarray(gone, dtype=np.uint64))
        _add(old._index, add, vectors)
        return cls._write(folder, old._index, old.manifest["dtype"], int(old.manifest["expansion"]), removed)

    @classmethod
    def _write(cls, folder: Path, index: Any, dtype: str, expansion: int, removed: int) -> VectorIndex:
        path = folder / "index.usearch"
        index.save(str(path))
        path.chmod(0o600)
        manifest = {
            "version": FORMAT_VERSION,
            "count": len(index),
            "dimension": int(index.ndim),
            "dtype": dtype,
            "expansion": expansion,
            "removed": removed,
            "sha256": _sha256(path),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return cls(index, manifest)

    @classmethod
    def open(cls, folder: Path) -> VectorIndex:
        """Load an index into memory. Raises DamagedError when a file is missing or differs from its sha256."""
        try:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            version, expected = manifest["version"], manifest["sha256"]
            found = _sha256(folder / "index.usearch")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(folder, f"{type(error).__name__}: {error}") from None
        if version != FORMAT_VERSION or found != expected:
            raise _damaged(folder, "its checksum does not match" if version == FORMAT_VERSION else f"its format is version {version}")
        index = _empty(int(manifest["dimension"]), manifest["dtype"], int(manifest["expansion"]))
        try:
            index.load(str(folder / "index.usearch"))
        except Exception as error:
            raise _damaged(folder, str(error)) from None
        return cls(index, manifest)

    @property
    def count(self) -> int:
        return int(self.manifest["count"])

    def keys(self) -> NDArray[np.int64]:
        """All chunk ids in the index, (n,)."""
        import numpy as np

        return np.asarray(self._index.keys, dtype=np.int64)

    def search(self, vector: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and cosines (both (min(k, n),)) of the chunks nearest to one query vector (d,), best first, ties by id."""
        import numpy as np

        if self.count == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        matches = self._index.search(vector.astype(np.float32), min(k, self.count), exact=self.count <= EXACT_UP_TO)
        return _ordered(matches.keys.astype(np.int64), 1.0 - matches.distances.astype(np.float32))

    def search_among(
        self, vector: NDArray[np.float32], allowed: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`search`, restricted to the keys in `allowed`: exact, whatever the size of the index."""
        import numpy as np

        keys = allowed[self._index.contains(allowed.astype(np.uint64))] if len(allowed) else allowed
        if len(keys) == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows = np.asarray(self._index.get(keys.astype(np.uint64), dtype=np.float32))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        scores = rows @ vector
        return tuple(part[:k] for part in _ordered(keys, scores))  # type: ignore[return-value]


def _empty(dimension: int, dtype: str, expansion: int) -> Any:
    from usearch.index import Index

    return Index(ndim=dimension, metric="cos", dtype=DTYPES[dtype], expansion_search=expansion)


def _add(index: Any, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    import numpy as np

    if len(ids) == 0:
        return
    if not np.isfinite(vectors).all():
        raise EngineError(
            "The encoder made vectors that are not finite.", "The model's weights may be damaged.", "Check the model, or use another."
        )
    index.add(ids.astype(np.uint64), vectors)


def _ordered(ids: NDArray[np.int64], scores: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    import numpy as np

    order = np.lexsort((ids, -scores))
    return ids[order], scores[order]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(folder: Path, why: str) -> DamagedError:
    return DamagedError(
        f"The vector index in {folder} is damaged.", f"{why}.", "Run 'engine embed --force' to build it again; BM25 search goes on meanwhile."
    )
