"""The vector index: a folder with files of rows and a manifest of their checksums.

Files are written once and memory-mapped. An update writes one more file, links to the others and
records which of their rows are deleted, so that no large graph is built again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.core.disk import disk_errors, file_sha256, write_text
from engine.core.errors import EngineError
from engine.encoders.geometry.similarity import COSINE, IndexForm, Similarity
from engine.vectors.forms import DTYPES, index_form
from engine.vectors.ids import distinct
from engine.vectors.manifest import FORMAT_VERSION, GONE, damage_error, read_manifest

if TYPE_CHECKING:
    from engine.core.arrays import Array, Floats, Ids, Ranking
    from engine.vectors.part import Part

REBUILD_SHARE = 0.2
"""Share of deleted rows above which the index is rebuilt, since searches still read them."""
CANDIDATES_PER_HIT = 8
"""Minimum number of candidates from graphs for each hit asked for."""


class Rows(Protocol):
    """Vectors, float32 (n, d), that can be read by slices, such as an array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (n, d)."""

    def __getitem__(self, rows: slice, /) -> Any:
        """Return the vectors of a slice (m, d)."""


@dataclass(frozen=True, slots=True)
class IndexSizes:
    """The sizes that decide how an index is written and searched, in rows."""

    exact_up_to: int = 100_000
    """Up to this size of the index, a query is compared with all rows; beyond, graphs are used."""
    graph_from: int = 20_000
    """In an index with graphs, files of more rows have one."""
    candidates: int = 1024
    """Minimum number of candidates from graphs, of which the nearer half is compared exactly."""
    block: int = 16_384
    """Number of rows that are converted at once."""


SIZES = IndexSizes()


class VectorIndex:
    """An index of chunk vectors, in the form that a similarity needs.

    `build` and `updated` write an index, `open` reads it. The *place* of a row is its number among
    the rows of all files, from 0. A *key* is a chunk id; D is the width of stored rows. `gone`:
    places of the deleted rows, ascending.
    """

    def __init__(
        self,
        folder: Path,
        manifest: dict[str, Any],
        parts: list[Part],
        gone: Ids,
        sizes: IndexSizes,
    ) -> None:
        import numpy as np

        self.folder = folder
        self.sizes = sizes
        self.manifest = manifest
        self.form = index_form(manifest)
        self._parts = parts
        self._gone = gone
        ids_of_parts = [part.ids for part in parts]
        # Place of the first row of each part, then the number of all rows.
        self._starts = np.cumsum([0, *map(len, ids_of_parts)])
        self._is_live = np.ones(self._starts[-1], bool)
        self._is_live[gone] = False
        part_has_graph = [bool(part.graph) for part in parts]
        lengths = np.diff(self._starts)
        has_graph = np.repeat(part_has_graph, lengths).astype(bool)
        self._without_graph = np.flatnonzero(self._is_live & ~has_graph)
        places = np.flatnonzero(self._is_live)
        all_ids = np.concatenate([np.empty(0, np.int64), *ids_of_parts])
        ids = all_ids[places]
        # Ids ascending, with the places of their rows.
        order = np.argsort(ids, kind="stable")
        self._keys: Ids = ids[order]
        self._places: Ids = places[order]

    @classmethod
    def build(
        cls,
        folder: Path,
        ids: Ids,
        vectors: Rows,
        *,
        similarity: Similarity = COSINE,
        dtype: str = "f16",
        sizes: IndexSizes = SIZES,
    ) -> VectorIndex:
        """Write an index of `vectors` (float32, (n, d)) with the keys `ids` (n,) into `folder`.

        Vectors are compared by `similarity`. Raises EngineError for vectors that are not finite,
        ValueError for ids that are not unique or do not match the vectors.
        """
        import numpy as np

        _check_ids(ids, vectors)
        form = similarity.index_form
        manifest = {
            "version": FORMAT_VERSION,
            "dimension": vectors.shape[1] + form.added,
            "dtype": dtype,
            "removed": 0,
            "form": form.name,
            **form.parameters,
            "parts": {},
            "graphs": {},
        }
        blocks = _convert_blocks(
            form,
            vectors,
            dtype,
            sizes.block,
        )
        nothing_gone = np.empty(0, np.int64)
        return cls._write(
            folder,
            manifest,
            ids,
            blocks,
            nothing_gone,
            sizes,
        )

    def updated(
        self, folder: Path, add: Ids, vectors: Rows, remove: Iterable[int]
    ) -> VectorIndex | None:
        """Write this index, with keys removed and added, into another `folder`.

        A key that is added again replaces the former one. Small files are merged into the new one,
        so that there are never many. Returns None if the index must be rebuilt because many keys
        are removed or replaced. Raises what `build` raises.
        """
        import numpy as np

        from engine.vectors.graph import graph_of

        _check_ids(add, vectors)
        removed_ids = np.fromiter(remove, np.int64)
        changed = np.concatenate([removed_ids, add])
        if self.needs_rebuild(changed):
            return None
        replaced = self._find_places(changed)
        removed = int(self.manifest["removed"]) + len(replaced)
        gone = distinct(np.concatenate([self._gone, replaced]))

        # The new file also takes the rows of former files, from the last one back, as long as they
        # have no more rows than it has already.
        ids = [add]
        block = self.sizes.block
        blocks = [_convert_blocks(self.form, vectors, self.manifest["dtype"], block)]
        count = len(add)
        parts = dict(self.manifest["parts"])
        for part, start in zip(reversed(self._parts), reversed(self._starts[:-1]), strict=True):
            if len(part.ids) > count:
                break
            parts.popitem()
            is_here = gone >= start
            gone_here = gone[is_here] - start
            gone = gone[~is_here]
            kept = np.delete(np.arange(len(part.ids)), gone_here)
            ids.append(part.ids[kept])
            blocks.append(_read_blocks(part, kept, block))
            count += len(kept)

        graphs = {}
        for name, digest in self.manifest["graphs"].items():
            if name in parts:
                graphs[name] = digest
        self._link([*parts, *(graph_of(Path(name)).name for name in graphs)], folder)
        manifest = {
            **self.manifest,
            "removed": removed,
            "parts": parts,
            "graphs": graphs,
        }
        new_ids = np.concatenate(ids)
        rows = chain.from_iterable(blocks)
        return self._write(
            folder,
            manifest,
            new_ids,
            rows,
            gone,
            self.sizes,
        )

    def needs_rebuild(self, changed: Ids) -> bool:
        """Return whether an update of these keys would leave too many deleted rows.

        `changed` (n,): keys to remove or replace; keys that the index does not contain are ignored.
        """
        removed = int(self.manifest["removed"]) + len(self._find_places(changed))
        return removed > REBUILD_SHARE * max(1, self.count)

    def _link(self, names: Iterable[str], folder: Path) -> None:
        """Link files of the index into another folder, or copy them."""
        for name in names:
            try:
                os.link(self.folder / name, folder / name)
            except OSError:  # a file system without links
                shutil.copyfile(self.folder / name, folder / name)

    @classmethod
    def _write(
        cls,
        folder: Path,
        manifest: dict[str, Any],
        ids: Ids,
        blocks: Iterable[Array],
        gone: Ids,
        sizes: IndexSizes,
    ) -> VectorIndex:
        """Write a file with new rows, missing graphs, the deleted rows and the manifest.

        `folder` already contains the files that `manifest` names. `ids` (n,), `blocks` (m, D): the
        new rows. `gone`: places of the deleted rows. Returns the opened index.
        """
        import numpy as np

        from engine.vectors.graph import graph_of
        from engine.vectors.part import map_parts, write_part

        parts = dict(manifest["parts"])
        graphs = dict(manifest["graphs"])
        numbers = [int(name.removeprefix("part-").removesuffix(".vec")) for name in parts]
        path = folder / f"part-{1 + max(numbers, default=0):06d}.vec"
        with disk_errors("The vector index could not be written."):
            if len(ids):
                write_part(path, ids, blocks)
                parts[path.name] = (len(ids), file_sha256(path))
            total = sum(rows for rows, _ in parts.values())
            if total > sizes.exact_up_to and index_form(manifest).of_cosines:
                # Files from the time when the index was smaller may have no graph yet.
                for name, (rows, _) in parts.items():
                    if rows > sizes.graph_from and name not in graphs:
                        _write_graph(
                            folder / name,
                            rows,
                            manifest,
                            sizes.block,
                        )
                        graphs[name] = file_sha256(graph_of(folder / name))
            np.save(folder / GONE, gone)
            (folder / GONE).chmod(0o600)
        manifest = {
            **manifest,
            "count": total - len(gone),
            "parts": parts,
            "graphs": graphs,
            "gone": file_sha256(folder / GONE),
        }
        write_text(folder / "manifest.json", json.dumps(manifest))
        return cls(
            folder,
            manifest,
            map_parts(folder, manifest),
            gone,
            sizes,
        )

    @classmethod
    def open(cls, folder: Path, sizes: IndexSizes = SIZES) -> VectorIndex:
        """Map an index. Raises DamagedError if a file is missing or differs from its checksum."""
        import numpy as np

        from engine.vectors.part import map_parts

        manifest = read_manifest(folder)
        try:
            gone = np.load(folder / GONE).astype(np.int64)
            opened = cls(
                folder,
                manifest,
                map_parts(folder, manifest),
                gone,
                sizes,
            )
        except Exception as error:
            raise damage_error(folder, str(error)) from None
        if opened.count != len(opened.keys()):
            raise damage_error(folder, "the manifest does not fit the index")
        return opened

    @property
    def count(self) -> int:
        """Number of vectors."""
        return int(self.manifest["count"])

    @property
    def width(self) -> int:
        """Dimension d of the encoder's vectors; stored rows may have more numbers."""
        return int(self.manifest["dimension"]) - self.form.added

    def query_row(self, vector: Floats) -> Floats:
        """Return a query's vector (d,) in the form in which it is compared with stored rows.

        Raises EngineError for a vector that is not finite, or of another width than the index.
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

    def similarities(self, rows: Array, vector: Floats) -> Floats:
        """Return the exact similarities (n,) of a query's vector (d,) with rows from `stored`."""
        return self._compare(rows, self.query_row(vector))

    def _compare(self, rows: Array, query_row: Floats) -> Floats:
        """Return the similarities (n,) of stored rows with a query's row."""
        from engine.vectors.exact import cosines, inner_products

        compare = cosines if self.form.of_cosines else inner_products
        return self.form.similarities(compare([rows], query_row))

    def keys(self) -> Ids:
        """Return all chunk ids in the index, ascending (n,)."""
        return self._keys

    def stored(self) -> tuple[Ids, Array]:
        """Return all chunk ids, ascending (n,), and their rows as stored (n, D).

        The rows are the mapped file if they are stored in this order, otherwise a copy.
        """
        steps = self._places[1:] - self._places[:-1]
        is_ascending = bool((steps > 0).all())
        if len(self._parts) == 1 and not len(self._gone) and is_ascending:
            return self._keys, self._parts[0].rows
        return self._keys, self._read_rows(self._places)

    def rows(self, ids: Ids) -> Array:
        """Return the rows of `ids` (n,) as stored (n, D); the index must contain them all."""
        import numpy as np

        return self._read_rows(self._places[np.searchsorted(self._keys, ids)])

    def search(self, vector: Floats, k: int) -> Ranking:
        """Return the ids and similarities of the k chunks nearest to a query's vector (d,).

        Both (min(k, n),), best first, ties by id.
        """
        query_row = self.query_row(vector)
        if self.count <= self.sizes.exact_up_to or not self.form.of_cosines:
            return self._find_nearest(
                self._places,
                query_row,
                k,
            )
        return self._find_nearest(
            self._find_candidates(query_row, k),
            query_row,
            k,
        )

    def search_among(
        self,
        vector: Floats,
        allowed: Ids,
        k: int,
    ) -> Ranking:
        """Search as `search` does, among the ids `allowed` (n,) only and always exactly."""
        # Checks the vector, even if no key is allowed.
        query_row = self.query_row(vector)
        return self._find_nearest(
            self._find_places(allowed),
            query_row,
            k,
        )

    def search_exactly(self, vector: Floats, k: int) -> Ranking:
        """Search as `search` does, but by comparing the query with all rows."""
        return self._find_nearest(
            self._places,
            self.query_row(vector),
            k,
        )

    def _find_nearest(
        self,
        places: Ids,
        query_row: Floats,
        k: int,
    ) -> Ranking:
        """Return the ids and similarities of the k nearest rows at `places`; ties by id."""
        import numpy as np

        k = max(0, min(k, len(places)))
        if not k:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        similarities = self._compare_places(places, query_row)
        kth = len(similarities) - k
        threshold = np.partition(similarities, kth)[kth]
        is_best = similarities >= threshold
        ids = self._read_parts(places[is_best], lambda part: part.ids)
        best = similarities[is_best]
        order = np.lexsort((ids, -best))[:k]
        return ids[order], best[order]

    def _compare_places(self, places: Ids, query_row: Floats) -> Floats:
        """Return the similarities (n,) of a query's row with the rows at `places` (n,)."""
        import numpy as np

        values = np.empty(len(places), np.float32)
        for start, part in zip(self._starts[:-1], self._parts, strict=True):
            is_here = (places >= start) & (places < start + len(part.ids))
            here = np.flatnonzero(is_here)
            rows = places[here] - start
            if 2 * len(here) > len(part.ids):
                # Reading the whole file in order is faster than selecting most of its rows.
                values[here] = self._compare(part.rows, query_row)[rows]
            elif len(here):
                values[here] = self._compare(part.rows[rows], query_row)
        return values

    def _find_candidates(self, query_row: Floats, k: int) -> Ids:
        """Return the places, ascending, of the rows to compare with a query.

        These are the nearest candidates of the graphs, and all rows of files without a graph.
        """
        import numpy as np

        from engine.vectors.graph import find_candidates

        wanted = max(self.sizes.candidates, CANDIDATES_PER_HIT * k)
        graphs = []
        for start, part in zip(self._starts[:-1], self._parts, strict=True):
            if part.graph:
                graphs.append((start, part.graph))
        places, distances = find_candidates(graphs, query_row, wanted)
        is_live = self._is_live[places]
        # The graphs hold rounded copies of the rows. The nearer half is compared exactly.
        order = np.argsort(distances[is_live])[: wanted // 2]
        nearest = places[is_live][order]
        return np.sort(np.concatenate([nearest, self._without_graph]))

    def _find_places(self, ids: Ids) -> Ids:
        """Return the places of those of `ids` that the index contains, each once."""
        import numpy as np

        wanted = distinct(ids)
        positions = np.searchsorted(self._keys, wanted)
        # `wanted` ascends, so ids above the last key are at its end; leave them out.
        positions = positions[positions < len(self._keys)]
        is_present = self._keys[positions] == wanted[: len(positions)]
        return np.asarray(self._places[positions[is_present]])

    def _read_rows(self, places: Ids) -> Array:
        """Return the stored rows at `places`."""
        return self._read_parts(places, lambda part: part.rows)

    def _read_parts(self, places: Ids, table: Callable[[Part], Array]) -> Array:
        """Return the ids or rows at `places`; `table` returns those of a whole part."""
        import numpy as np

        if len(self._parts) == 1:
            return np.asarray(table(self._parts[0])[places])
        if not self._parts:  # an empty index: `places` is empty, too
            dtype = np.dtype(DTYPES[self.manifest["dtype"]])
            return np.empty((len(places), self.manifest["dimension"]), dtype)
        first = table(self._parts[0])
        shape = (len(places), *first.shape[1:])
        entries = np.empty(shape, first.dtype)
        # The number of the part that each place lies in.
        part_numbers = np.searchsorted(self._starts, places, side="right") - 1
        for number, part in enumerate(self._parts):
            is_here = part_numbers == number
            rows = places[is_here] - self._starts[number]
            entries[is_here] = table(part)[rows]
        return entries


def _write_graph(
    path: Path,
    count: int,
    manifest: dict[str, Any],
    block: int,
) -> None:
    """Write the HNSW graph of the `count` rows in the file `path`, next to that file.

    Rows are read in blocks of `block`.
    """
    import numpy as np

    from engine.vectors.graph import graph_of, write_graph
    from engine.vectors.part import map_part

    width = manifest["dimension"]
    dtype = np.dtype(DTYPES[manifest["dtype"]])
    # The file is mapped again for each block, so that blocks already read do not stay in memory.
    blocks = (
        map_part(path, count, width, dtype).rows[start : start + block]
        for start in range(0, count, block)
    )
    write_graph(
        graph_of(path),
        blocks,
        width,
    )


def _convert_blocks(
    form: IndexForm,
    vectors: Rows,
    dtype: str,
    size: int,
) -> Iterator[Array]:
    """Yield vectors (n, d) as rows in their stored form, in blocks (m, D) of up to `size` rows."""
    import numpy as np

    from engine.vectors.exact import round_to

    stored = np.dtype(DTYPES[dtype])
    for start in range(0, vectors.shape[0], size):
        block = vectors[start : start + size]
        _refuse_not_finite(block)
        yield round_to(form.rows(block), stored)


def _read_blocks(
    part: Part,
    places: Ids,
    size: int,
) -> Iterator[Array]:
    """Yield the rows at `places`, counted within the file, in blocks (m, D) of at most `size`."""
    for start in range(0, len(places), size):
        yield part.rows[places[start : start + size]]


def _check_ids(ids: Ids, vectors: Rows) -> None:
    """Raise ValueError unless ids are unique, not negative and as many as the vectors."""
    if len(ids) != vectors.shape[0]:
        raise ValueError(f"{len(ids)} ids do not fit vectors of shape {vectors.shape}")
    unique = distinct(ids)
    if len(unique) != len(ids) or (unique[:1] < 0).any():
        raise ValueError("ids must be unique and not negative")


def _refuse_not_finite(vectors: Floats) -> None:
    """Raise EngineError for vectors with NaN or infinity."""
    import numpy as np

    if not np.isfinite(vectors).all():
        raise EngineError(
            "The encoder made vectors that are not finite.",
            "The model's weights may be damaged.",
            "Check the model, or use another.",
            code="vectors-not-finite",
        )
