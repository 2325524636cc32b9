"""A graph over the rows of one large file of an index, which names candidates (HNSW, Malkov and Yashunin 2018; usearch).

It is mapped, not read, so that opening it costs nothing. Its own copy of the rows is int8: what it names is compared exactly after.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.encoders.graph.native_libraries import prepare_for_usearch

CONNECTIVITY, EXPANSION, PIVOTS = 16, 80, 256  # docs/log/scale.md


def graph_of(path: Path) -> Path:
    """Where the graph of a file of rows lies."""
    return path.with_suffix(".usearch")


def write_graph(path: Path, blocks: Iterable[NDArray[Any]], width: int, *, of_cosines: bool) -> None:
    """Build the graph of rows, which come in `blocks` (m, D), under their places and save it. `of_cosines`: else int8 is too coarse
    for them.

    Raises OSError.
    """
    index, pivots = _empty(width, "i8" if of_cosines else "f16"), np.empty((0, width), np.float32)
    for block in blocks:
        rows = block.astype(np.float32)
        pivots = pivots if len(pivots) else rows[:: max(1, len(rows) // PIVOTS)]
        # neighbours one after the other: what the next is compared with is at hand in the processor's cache
        order = np.argsort((rows @ pivots.T).argmax(axis=1), kind="stable")
        index.add((len(index) + order).astype(np.uint64), rows[order])
    try:
        index.save(str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error
    path.chmod(0o600)


def map_graph(path: Path, width: int, *, of_cosines: bool) -> Any:
    """The graph of a file whose checksum has been checked. Raises RuntimeError."""
    index = _empty(width, "i8" if of_cosines else "f16")
    index.view(str(path))
    return index


def candidates(
    graphs: Sequence[tuple[int, Any]], query_row: NDArray[np.float32], wanted: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Places (m,) of rows nearest to a query (D,), and their coarse distances. `graphs`: each after the place of its first row. One
    names about as many as are wanted, of several each the root of its share of the rows: more in all, as each may miss some.
    """
    places, distances = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    count = sum(len(graph) for _, graph in graphs)
    for start, graph in graphs:
        graph.expansion_search = share = min(math.ceil(wanted * math.sqrt(len(graph) / count)), len(graph))
        found = graph.search(query_row.astype(np.float32), share)
        places.append(start + found.keys.astype(np.int64))
        distances.append(found.distances)
    return np.concatenate(places), np.concatenate(distances)


def _empty(width: int, dtype: str) -> Any:
    prepare_for_usearch()
    from usearch.index import Index

    return Index(ndim=width, metric="cos", dtype=dtype, connectivity=CONNECTIVITY, expansion_add=EXPANSION)
