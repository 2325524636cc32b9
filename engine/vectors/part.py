"""A file of an index, with chunk ids and rows. It is written once and memory-mapped.

Layout, little-endian: ids (n, int64), rows (n, D).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.arrays import Array, Ids
from engine.vectors.forms import DTYPES
from engine.vectors.graph import graph_of, map_graph


@dataclass(frozen=True, slots=True)
class Part:
    """A mapped file of an index."""

    ids: Ids
    """Chunk ids (n,)."""
    rows: Array
    """Stored rows (n, D)."""
    graph: Any = None
    """The HNSW graph of the rows, None for a small file."""


def part_size(
    count: int,
    width: int,
    dtype: np.dtype[Any],
) -> int:
    """Return the size of a file in bytes."""
    return count * (8 + width * dtype.itemsize)


def map_part(
    path: Path,
    count: int,
    width: int,
    dtype: np.dtype[Any],
    graph: Any = None,
) -> Part:
    """Map a file of `count` rows of `width` numbers, whose size has been checked.

    `graph`: the HNSW graph of the rows, if there is one.
    """
    stored = dtype.newbyteorder("<")
    ids: Any = np.memmap(
        path,
        dtype="<i8",
        mode="r",
        shape=(count,),
    )
    rows: Any = np.memmap(
        path,
        dtype=stored,
        mode="r",
        offset=8 * count,
        shape=(count, width),
    )
    return Part(ids, rows, graph)


def map_parts(folder: Path, manifest: dict[str, Any]) -> list[Part]:
    """Map the files that a manifest names, which have been checked. Raises RuntimeError."""
    width = manifest["dimension"]
    dtype = np.dtype(DTYPES[manifest["dtype"]])
    parts = []
    for name, (rows, _) in manifest["parts"].items():
        path = folder / name
        graph = None
        if name in manifest["graphs"]:
            graph = map_graph(graph_of(path))
        parts.append(map_part(path, rows, width, dtype, graph))
    return parts


def write_part(
    path: Path,
    ids: Ids,
    blocks: Iterable[Array],
) -> None:
    """Write a file of rows, which come in `blocks` (m, D) in their stored form. Raises OSError."""
    with path.open("wb") as file:
        file.write(ids.astype("<i8").tobytes())
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)
    path.chmod(0o600)
