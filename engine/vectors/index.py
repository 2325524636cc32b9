"""A usearch index in a folder of its own, with a manifest; damage is found before it can crash native code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine.core.disk import file_sha256, write_text
from engine.core.errors import DamagedError, EngineError, ResourceError
from engine.core.similarity import COSINE, IndexForm, Similarity
from engine.encoders.graph.native_libraries import prepare_for_usearch
from engine.vectors.forms import index_form

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT_VERSION = 1
EXACT_UP_TO = 20_000  # exact search of this many vectors takes a few ms: no need to approximate
REBUILD_SHARE = 0.2  # recall of an HNSW graph sinks with removed keys
READ_BLOCK = 16_384
DTYPES = {"f16": "f16", "f32": "f32", "i8": "i8"}


class VectorIndex:
    """Index over chunk vectors, by cosine, in the form that serves a similarity. Made by `build` or `update`, read by `open`."""

    def __init__(self, index: Any, manifest: dict[str, Any]) -> None:
        self._index, self.manifest, self.form = index, manifest, index_form(manifest)

    @classmethod
    def build(
        cls,
        folder: Path,
        ids: NDArray[np.int64],
        vectors: NDArray[np.float32],
        *,
        similarity: Similarity = COSINE,
        dtype: str = "f16",
        expansion: int = 128,
    ) -> VectorIndex:
        """Write an index of `vectors` (float32, (n, d)), compared by `similarity`, under keys `ids` (n,) into `folder`.

        Raises EngineError for vectors that are not finite: usearch would return them as hits. ValueError for ids that
        are not unique or do not fit the vectors.
        """
        _refuse_not_finite(vectors)
        form = similarity.index_form.fitted(vectors)
        rows = form.rows(vectors, _precision(dtype))
        index = _empty(rows.shape[1], dtype, expansion)
        _add(index, ids, rows)
        return cls.write(folder, index, dtype, expansion, 0, form)

    @classmethod
    def update(
        cls,
        former: Path,
        folder: Path,
        add: NDArray[np.int64],
        vectors: NDArray[np.float32],
        remove: Iterable[int],
    ) -> VectorIndex | None:
        """Write a copy of the index in `former`, with keys removed and added, into `folder`; `former` is not changed.

        An added key that is known is replaced. None when so many keys have gone, or a vector is so long, that the index must be
        rebuilt. Raises DamagedError like `open`, EngineError and ValueError like `build`.
        """
        import numpy as np

        old = cls.open(former)
        gone = np.union1d(np.fromiter(remove, np.int64), add)
        gone = gone[np.isin(gone, old.keys())]
        removed = int(old.manifest["removed"]) + len(gone)
        _refuse_not_finite(vectors)
        if removed > REBUILD_SHARE * max(1, old.count) or not old.form.takes(vectors):
            return None
        if len(gone):
            old._index.remove(gone.astype(np.uint64))
        _add(old._index, add, old.form.rows(vectors, _precision(old.manifest["dtype"])))
        return cls.write(folder, old._index, old.manifest["dtype"], int(old.manifest["expansion"]), removed, old.form)

    @classmethod
    def write(cls, folder: Path, index: Any, dtype: str, expansion: int, removed: int, form: IndexForm) -> VectorIndex:
        """Save the graph with its manifest into `folder`, and open it."""
        path = folder / "index.usearch"
        try:
            index.save(str(path))
        except RuntimeError as error:
            raise ResourceError(
                "The vector index could not be written.", f"{error}.", "Free some disk space and run again.",
                code="write-failed", command="run",
            ) from error  # fmt: skip
        path.chmod(0o600)
        manifest = {
            "version": FORMAT_VERSION,
            "count": len(index),
            "dimension": int(index.ndim),
            "dtype": dtype,
            "expansion": expansion,
            "removed": removed,
            "form": form.name,
            **form.parameters,
            "sha256": file_sha256(path),
        }
        write_text(folder / "manifest.json", json.dumps(manifest))
        return cls(index, manifest)

    @classmethod
    def open(cls, folder: Path) -> VectorIndex:
        """Load an index into memory. Raises DamagedError when a file is missing or differs from its sha256."""
        manifest = _read_manifest(folder)
        try:
            index = _empty(manifest["dimension"], manifest["dtype"], manifest["expansion"])
            index.load(str(folder / "index.usearch"))
        except Exception as error:
            raise _damaged(folder, str(error)) from None
        if (len(index), int(index.ndim)) != (manifest["count"], manifest["dimension"]):
            raise _damaged(folder, "the manifest does not fit the index")
        return cls(index, manifest)

    @property
    def count(self) -> int:
        """Number of vectors."""
        return int(self.manifest["count"])

    @property
    def width(self) -> int:
        """Numbers of the encoder's vectors, d; rows that are stored may have more."""
        return int(self.manifest["dimension"]) - self.form.added

    def query_row(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """A query's vector (d,) as it is compared with stored ones. Raises EngineError for one that is not finite, or of another
        width than the index."""
        if vector.shape != (self.width,):
            raise EngineError(
                f"A query vector of {vector.shape[-1]} numbers does not fit the index of {self.width}.",
                "The model has changed since the documents were embedded.", "Run 'engine run' to embed them again.",
                code="model-changed", stage="embed", command="run",
            )  # fmt: skip
        _refuse_not_finite(vector)
        return self.form.query_rows(vector)

    def similarities(self, rows: NDArray[Any], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """The similarity (n,) of a query's vector (d,) with each of `rows` as `stored` gives them: exact."""
        from engine.vectors.exact import cosines

        query_row = self.query_row(vector)
        return self.form.similarities(cosines([rows], query_row), query_row)

    def _held(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        """Those of `ids` that the index holds, ascending (n,), and their rows; None for no rows."""
        import numpy as np

        keys = np.unique(ids[ids >= 0])
        keys = keys[self._index.contains(keys.astype(np.uint64))] if len(keys) else keys
        return keys, np.asarray(self._index.get(keys.astype(np.uint64), dtype=np.float32)) if len(keys) else None

    def keys(self) -> NDArray[np.int64]:
        """All chunk ids in the index, (n,)."""
        import numpy as np

        return np.asarray(self._index.keys, dtype=np.int64)

    def stored(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """All chunk ids, ascending (n,), and their vectors as they are stored, a row each: float32, or float16 for less."""
        import numpy as np

        keys = np.sort(self.keys())
        vectors = np.empty((len(keys), self.manifest["dimension"]), _precision(self.manifest["dtype"]))
        for start in range(0, len(keys), READ_BLOCK):
            block = slice(start, start + READ_BLOCK)
            vectors[block] = self.rows(keys[block])
        return keys, vectors

    def rows(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of `ids` (n,), which are all in the index, as they are stored (see `stored`)."""
        import numpy as np

        return np.asarray(self._index.get(ids.astype(np.uint64), dtype=_precision(self.manifest["dtype"])))

    def search(self, vector: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and similarities (both (min(k, n),)) of the chunks nearest to one query vector (d,), best first, ties by id."""
        import numpy as np

        query_row = self.query_row(vector)
        if self.count == 0 or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        matches = self._index.search(query_row.astype(np.float32), min(k, self.count), exact=self.count <= EXACT_UP_TO)
        cosines = 1.0 - matches.distances.astype(np.float32)
        return _ordered(matches.keys.astype(np.int64), self.form.similarities(cosines, query_row))

    def search_among(
        self, vector: NDArray[np.float32], allowed: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`search`, restricted to the keys in `allowed`: exact, whatever the size of the index."""
        import numpy as np

        self.query_row(vector)  # refuses a vector that does not fit, also where none of `allowed` is here
        keys, rows = self._held(allowed)
        if rows is None or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        keys, found = _ordered(keys, self.similarities(rows, vector))
        return keys[:k], found[:k]


def _empty(dimension: int, dtype: str, expansion: int) -> Any:
    prepare_for_usearch()
    from usearch.index import Index

    return Index(ndim=dimension, metric="cos", dtype=DTYPES[dtype], expansion_search=expansion)


def _precision(dtype: str) -> type[np.floating]:
    """That of a storage type: float16 for less."""
    import numpy as np

    return np.float32 if dtype == "f32" else np.float16


def _add(index: Any, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    import numpy as np

    if vectors.ndim != 2 or len(ids) != len(vectors) or vectors.shape[1] != index.ndim:
        raise ValueError(
            f"{len(ids)} ids do not fit vectors of shape {vectors.shape} in an index of width {index.ndim}"
        )
    if len(np.unique(ids)) != len(ids) or (len(ids) and ids.min() < 0):
        raise ValueError("ids must be unique and not negative")
    if len(ids):
        index.add(ids.astype(np.uint64), vectors)


def _refuse_not_finite(vectors: NDArray[np.float32]) -> None:
    import numpy as np

    if not np.isfinite(vectors).all():
        raise EngineError(
            "The encoder made vectors that are not finite.", "The model's weights may be damaged.",
            "Check the model, or use another.", code="vectors-not-finite",
        )  # fmt: skip


def _ordered(ids: NDArray[np.int64], scores: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    import numpy as np

    order = np.lexsort((ids, -scores))
    return ids[order], scores[order]


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, its values checked, and the index's checksum with it. Raises DamagedError."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        version, expected = manifest["version"], manifest["sha256"]
        numbers = [manifest[key] for key in ("count", "dimension", "expansion", "removed")]
        form = index_form(manifest)
        found = file_sha256(folder / "index.usearch")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(folder, f"{type(error).__name__}: {error}") from None
    if version != FORMAT_VERSION:
        raise _damaged(folder, f"its format is version {version}")
    if found != expected:
        raise _damaged(folder, "its checksum does not match")
    if (
        not all(type(number) is int and 0 <= number < 2**31 for number in numbers)
        or manifest["dimension"] <= form.added
    ):
        raise _damaged(folder, "its manifest holds impossible values")
    return cast(dict[str, Any], manifest)


def _damaged(folder: Path, why: str) -> DamagedError:
    return DamagedError(
        f"The vector index in {folder} is damaged.", f"{why}.",
        "Run 'engine embed --force' to build it again; keyword search still works.",
        code="index-damaged", stage="embed", command="embed --force",
    )  # fmt: skip
