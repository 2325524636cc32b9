"""An index of vectors in a folder of its own, with a manifest; damage is found when it is
opened.

The rows lie in files that are written once and mapped: an update adds one, links to the others and
notes the rows that are gone. Up to `EXACT_UP_TO` rows all are compared with a query. In a larger
index, large files have graphs beside them; what these name is
compared: an update builds no large graph anew. Long, as one class reads and writes it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from engine.core.disk import disk_errors, file_sha256, write_text
from engine.core.errors import DamagedError, EngineError
from engine.core.similarity import COSINE, IndexForm, Similarity
from engine.vectors.forms import DTYPES, index_form
from engine.vectors.ids import distinct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.vectors.part import Part

FORMAT_VERSION = 2
EXACT_UP_TO = 100_000
GRAPH_FROM = 20_000  # rows of a file that has a graph, where the index has more than EXACT_UP_TO
CANDIDATES = 1024
"""Rows that graphs name, at least, and eight times what is wanted; the nearer half is compared."""
REBUILD_SHARE = 0.2  # of rows that are gone: they are read for nothing
BLOCK = 16_384
GONE = "gone.npy"


class Rows(Protocol):
    """Vectors that are made a slice at a time, float32 (m, d): an array is one, too."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""

    def __getitem__(self, rows: slice, /) -> Any:
        """Those of a slice."""


class VectorIndex:
    """Index over chunk vectors, by cosine, in the form that serves a similarity.

    Made by `build` or `updated`, read by `open`.
    """

    def __init__(
        self, folder: Path, manifest: dict[str, Any], parts: list[Part], gone: NDArray[np.int64]
    ) -> None:
        import numpy as np

        self.folder = folder
        self.manifest = manifest
        self.form = index_form(manifest)
        self._parts = parts
        self._gone = gone
        self._starts = np.cumsum([0, *(len(part.ids) for part in parts)])
        self._there = np.ones(self._starts[-1], bool)
        self._there[gone] = False
        has_graph = np.repeat([bool(part.graph) for part in parts], np.diff(self._starts)).astype(
            bool
        )
        self._unnamed = np.flatnonzero(self._there & ~has_graph)
        places = np.flatnonzero(self._there)
        ids = np.concatenate([np.empty(0, np.int64), *(part.ids for part in parts)])[places]
        order = np.argsort(ids, kind="stable")
        self._keys: NDArray[np.int64] = ids[order]
        self._places: NDArray[np.int64] = places[order]

    @classmethod
    def build(
        cls,
        folder: Path,
        ids: NDArray[np.int64],
        vectors: Rows,
        *,
        similarity: Similarity = COSINE,
        dtype: str = "f16",
    ) -> VectorIndex:
        """Write an index of `vectors` (float32, (n, d)), compared by `similarity`, under keys
        `ids` (n,) into `folder`.

        Raises EngineError for vectors that are not finite. ValueError for ids that are not unique
        or do not fit the vectors.
        """
        import numpy as np

        _check_ids(ids, vectors)
        form = similarity.index_form
        starts = range(0, len(ids), BLOCK)
        if not form.of_cosines:
            for start in starts or (0,):
                form = form.fitted(vectors[start : start + BLOCK])
        width = form.rows(vectors[:0], _precision(dtype)).shape[1]
        manifest = {
            "version": FORMAT_VERSION,
            "dimension": width,
            "dtype": dtype,
            "removed": 0,
            "form": form.name,
            **form.parameters,
            "parts": {},
            "graphs": {},
        }
        blocks = (_stored(form, vectors[start : start + BLOCK], dtype) for start in starts)
        return cls._write(folder, manifest, ids, blocks, np.empty(0, np.int64))

    def updated(
        self, folder: Path, add: NDArray[np.int64], vectors: Rows, remove: Iterable[int]
    ) -> VectorIndex | None:
        """Write this index with keys removed and added into `folder`; its own folder is not
        changed.

        An added key that is known is replaced. Small files become part of the new one, so that
        there are never many. None when so many keys have gone or come, or a vector is so long, that
        the index must be rebuilt. Raises like `build`.
        """
        import numpy as np

        from engine.vectors.graph import graph_of

        _check_ids(add, vectors)
        known = self._places_of(np.concatenate([np.fromiter(remove, np.int64), add]))
        removed = int(self.manifest["removed"]) + len(known)
        starts = range(0, len(add), BLOCK)
        form = self.form
        fit = form.of_cosines or all(form.takes(vectors[start : start + BLOCK]) for start in starts)
        if removed > REBUILD_SHARE * max(1, self.count) or not fit:
            return None
        gone = distinct(np.concatenate([self._gone, known]))
        names = list(self.manifest["parts"])
        ids = [add]
        fresh = (
            _stored(form, vectors[start : start + BLOCK], self.manifest["dtype"])
            for start in starts
        )
        blocks: list[Iterable[NDArray[Any]]] = [fresh]
        while names and len(self._parts[len(names) - 1].ids) <= sum(map(len, ids)):
            part = self._parts[len(names) - 1]
            start = self._starts[len(names) - 1]
            stay = np.delete(np.arange(len(part.ids)), gone[gone >= start] - start)
            ids = [*ids, part.ids[stay]]
            gone = gone[gone < start]
            blocks.append(map(part.rows.__getitem__, np.array_split(stay, 1 + len(stay) // BLOCK)))
            names.pop()
        parts = {name: self.manifest["parts"][name] for name in names}
        graphs = {name: digest for name, digest in self.manifest["graphs"].items() if name in parts}
        for name in (*parts, *(graph_of(Path(name)).name for name in graphs)):
            try:
                os.link(self.folder / name, folder / name)
            except OSError:  # a disk without links
                shutil.copyfile(self.folder / name, folder / name)
        manifest = {**self.manifest, "removed": removed, "parts": parts, "graphs": graphs}
        return self._write(folder, manifest, np.concatenate(ids), chain.from_iterable(blocks), gone)

    @classmethod
    def _write(
        cls,
        folder: Path,
        manifest: dict[str, Any],
        ids: NDArray[np.int64],
        blocks: Iterable[NDArray[Any]],
        gone: NDArray[np.int64],
    ) -> VectorIndex:
        """Write one more file of rows, and what is gone, with the manifest; open all."""
        import numpy as np

        from engine.vectors.graph import graph_of, write_graph
        from engine.vectors.part import map_part, map_parts, write_part

        parts = dict(manifest["parts"])
        graphs = dict(manifest["graphs"])
        form = index_form(manifest)
        path = folder / f"part-{1 + max((int(name[5:11]) for name in parts), default=0):06d}.vec"
        with disk_errors("The vector index could not be written."):
            if len(ids):
                write_part(path, ids, blocks)
                parts[path.name] = (len(ids), file_sha256(path))
            large = sum(rows for rows, _ in parts.values()) > EXACT_UP_TO
            width = manifest["dimension"]
            dtype = np.dtype(DTYPES[manifest["dtype"]])
            for name in (
                name
                for name, (rows, _) in parts.items()
                if large and rows > GRAPH_FROM and name not in graphs
            ):
                path = folder / name  # also of a file that is older than the index is large
                count = parts[name][0]
                starts = range(
                    0, count, BLOCK
                )  # each mapped for itself: what was read does not stay in memory
                blocks = (
                    map_part(path, count, width, dtype).rows[start : start + BLOCK]
                    for start in starts
                )
                write_graph(graph_of(path), blocks, width, of_cosines=form.of_cosines)
                graphs[name] = file_sha256(graph_of(path))
            np.save(folder / GONE, gone)
            (folder / GONE).chmod(0o600)
        count = sum(rows for rows, _ in parts.values()) - len(gone)
        digest = file_sha256(folder / GONE)
        manifest = {**manifest, "count": count, "parts": parts, "graphs": graphs, "gone": digest}
        write_text(folder / "manifest.json", json.dumps(manifest))
        return cls(folder, manifest, map_parts(folder, manifest), gone)

    @classmethod
    def open(cls, folder: Path) -> VectorIndex:
        """Map an index. Raises DamagedError when a file is missing or differs from its sha256."""
        import numpy as np

        from engine.vectors.part import map_parts

        manifest = _read_manifest(folder)
        try:
            gone = np.load(folder / GONE).astype(np.int64)
            opened = cls(folder, manifest, map_parts(folder, manifest), gone)
        except Exception as error:
            raise _damaged(folder, str(error)) from None
        if opened.count != len(opened.keys()):
            raise _damaged(folder, "the manifest does not fit the index")
        return opened

    @property
    def count(self) -> int:
        """Number of vectors."""
        return int(self.manifest["count"])

    @property
    def width(self) -> int:
        """Numbers of the encoder's vectors, d; rows that are stored may have more."""
        return int(self.manifest["dimension"]) - self.form.added

    def query_row(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """A query's vector (d,) as it is compared with stored ones.

        Raises EngineError for one that is not finite, or of another width than the index.
        """
        if vector.shape != (self.width,):
            raise EngineError(
                f"A query vector of {vector.shape[-1]} numbers does not fit the index of"
                f" {self.width}.",
                "The model has changed since the documents were embedded.",
                "Run 'engine run' to embed them again.",
                code="model-changed",
                stage="embed",
                command="run",
            )
        _refuse_not_finite(vector)
        return self.form.query_rows(vector)

    def similarities(self, rows: NDArray[Any], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """The similarity (n,) of a query's vector (d,) with each of `rows` as `stored` gives
        them: exact.
        """
        from engine.vectors.exact import cosines

        query_row = self.query_row(vector)
        return self.form.similarities(cosines([rows], query_row), query_row)

    def keys(self) -> NDArray[np.int64]:
        """All chunk ids in the index, ascending (n,)."""
        return self._keys

    def stored(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """All chunk ids, ascending (n,), and their vectors as they are stored, a row each:
        mapped, where they lie in that order.
        """
        in_order = (
            len(self._parts) == 1
            and not len(self._gone)
            and bool((self._places[1:] > self._places[:-1]).all())
        )
        return self._keys, self._parts[0].rows if in_order else self._rows(self._places)

    def rows(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of `ids` (n,), which are all in the index, as they are stored (see
        `stored`).
        """
        import numpy as np

        return self._rows(self._places[np.searchsorted(self._keys, ids)])

    def search(
        self, vector: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and similarities (both (min(k, n),)) of the chunks nearest to one query vector
        (d,), best first, ties by id.
        """
        query_row = self.query_row(vector)
        if self.count <= EXACT_UP_TO:
            return self._nearest(self._places, query_row, k)
        return self._nearest(self._candidates(query_row, k), query_row, k)

    def search_among(
        self, vector: NDArray[np.float32], allowed: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`search`, restricted to the keys in `allowed`: exact, whatever the size of the index."""
        query_row = self.query_row(
            vector
        )  # refuses a vector that does not fit, also where none of `allowed` is here
        return self._nearest(self._places_of(allowed), query_row, k)

    def search_exactly(
        self, vector: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`search`, all compared."""
        return self._nearest(self._places, self.query_row(vector), k)

    def _nearest(
        self, places: NDArray[np.int64], query_row: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The best k of the rows in `places`; ties, also at the end, by id."""
        import numpy as np

        k = max(0, min(k, len(places)))
        if not k:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        found = self.form.similarities(self._cosines(places, query_row), query_row)
        best = np.flatnonzero(found >= np.partition(found, len(found) - k)[len(found) - k])
        ids = self._of_parts(places[best], lambda part: part.ids)
        order = np.lexsort((ids, -found[best]))[:k]
        return ids[order], found[best][order]

    def _cosines(
        self, places: NDArray[np.int64], query_row: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Those (n,) of a query's row with the rows in these places."""
        import numpy as np

        from engine.vectors.exact import cosines

        found = np.empty(len(places), np.float32)
        for start, part in zip(self._starts, self._parts, strict=False):
            here = np.flatnonzero((places >= start) & (places < start + len(part.ids)))
            rows = places[here] - start
            if 2 * len(here) > len(part.ids):  # nearly all: read in order
                found[here] = cosines([part.rows], query_row)[rows]
            elif len(here):
                found[here] = cosines([part.rows[rows]], query_row)
        return found

    def _candidates(self, query_row: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Places, ascending, of the rows to compare: those nearest of what the graphs name, and
        all of files that have none.
        """
        import numpy as np

        from engine.vectors.graph import candidates

        wanted = max(CANDIDATES, 8 * k)
        graphs = [
            (start, part.graph)
            for start, part in zip(self._starts, self._parts, strict=False)
            if part.graph
        ]
        named, distances = candidates(graphs, query_row, wanted)
        there = self._there[named]
        nearest = named[there][np.argsort(distances[there])[: wanted // 2]]
        return np.sort(np.concatenate([nearest, self._unnamed]))

    def _places_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where those of `ids` lie that the index holds, each once."""
        import numpy as np

        wanted = distinct(ids)
        at = np.searchsorted(self._keys, wanted)
        at = at[at < len(self._keys)]  # those beyond are the last of `wanted`
        return np.asarray(self._places[at[self._keys[at] == wanted[: len(at)]]])

    def _rows(self, places: NDArray[np.int64]) -> NDArray[Any]:
        return self._of_parts(places, lambda part: part.rows)

    def _of_parts(
        self, places: NDArray[np.int64], table: Callable[[Part], NDArray[Any]]
    ) -> NDArray[Any]:
        """What stands in a table of the parts in these places."""
        import numpy as np

        if len(self._parts) == 1:
            return np.asarray(table(self._parts[0])[places])
        dtype = np.dtype(DTYPES[self.manifest["dtype"]])
        found = np.empty((len(places), self.manifest["dimension"]), dtype)
        if self._parts:
            first = table(self._parts[0])
            found = np.empty((len(places), *first.shape[1:]), first.dtype)
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        for number, part in enumerate(self._parts):
            here = numbers == number
            found[here] = table(part)[places[here] - self._starts[number]]
        return found


def _stored(form: IndexForm, vectors: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Vectors (m, d) as the rows of a file (m, D)."""
    import numpy as np

    from engine.vectors.exact import rounded

    _refuse_not_finite(vectors)
    return rounded(form.rows(vectors, _precision(dtype)), np.dtype(DTYPES[dtype]))


def _precision(dtype: str) -> type[np.floating]:
    """That of a storage type: float16 for less."""
    import numpy as np

    return np.float32 if dtype == "f32" else np.float16


def _check_ids(ids: NDArray[np.int64], vectors: Rows) -> None:
    if len(ids) != vectors.shape[0]:
        raise ValueError(f"{len(ids)} ids do not fit vectors of shape {vectors.shape}")
    if len(distinct(ids)) != len(ids) or (len(ids) and ids.min() < 0):
        raise ValueError("ids must be unique and not negative")


def _refuse_not_finite(vectors: NDArray[np.float32]) -> None:
    import numpy as np

    if not np.isfinite(vectors).all():
        raise EngineError(
            "The encoder made vectors that are not finite.",
            "The model's weights may be damaged.",
            "Check the model, or use another.",
            code="vectors-not-finite",
        )


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, its values and the files' sizes and checksums checked. Raises DamagedError."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        if manifest["version"] != FORMAT_VERSION:
            raise _damaged(
                folder,
                f"its format is version {manifest['version']}, that of another version of the"
                " program",
            )
        numbers = [manifest[key] for key in ("count", "dimension", "removed")]
        form = index_form(manifest)
        if (
            not all(type(number) is int and 0 <= number < 2**31 for number in numbers)
            or manifest["dimension"] <= form.added
        ):
            raise ValueError("its manifest holds impossible values")
        _check_files(folder, manifest)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise _damaged(folder, f"{type(error).__name__}: {error}") from None
    return cast(dict[str, Any], manifest)


def _check_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Raises ValueError, KeyError, TypeError or OSError."""
    import numpy as np

    from engine.vectors.graph import graph_of
    from engine.vectors.part import part_size

    width = manifest["dimension"]
    dtype = np.dtype(DTYPES[manifest["dtype"]])
    for name, (rows, digest) in manifest["parts"].items():
        if (
            type(rows) is not int
            or rows < 1
            or (folder / name).stat().st_size != part_size(rows, width, dtype)
        ):
            raise ValueError(f"{name} is of another size")
        if file_sha256(folder / name) != digest:
            raise ValueError(f"the checksum of {name} does not match")
    for name, digest in manifest["graphs"].items():
        if name not in manifest["parts"] or file_sha256(graph_of(folder / name)) != digest:
            raise ValueError(f"the checksum of the graph of {name} does not match")
    if file_sha256(folder / GONE) != manifest["gone"]:
        raise ValueError(f"the checksum of {GONE} does not match")


def _damaged(folder: Path, why: str) -> DamagedError:
    return DamagedError(
        f"The vector index in {folder} is damaged.",
        f"{why}.",
        "Run 'engine embed --force' to build it again; keyword search still works.",
        code="index-damaged",
        stage="embed",
        command="embed --force",
    )
