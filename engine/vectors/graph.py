"""HNSW graphs (Malkov and Yashunin 2018; usearch) that find candidates in a large file of rows.

A graph is memory-mapped, so that opening it costs nothing. It has its own copy of the rows in int8,
so its candidates are compared exactly afterwards. The copies are scaled to equal lengths: Euclidean
distances then order them as cosines do, at two thirds of the cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.arrays import Array, Floats, Ranking
from engine.encoders.graph.native_libraries import prepare_for_usearch

# Parameters of HNSW, measured in docs/log/scale.md.
CONNECTIVITY = 16
EXPANSION = 80
PIVOTS = 256
"""Number of rows by whose nearest one the rows of a block are sorted before they are added."""
ONE_THREAD = 1000
"""Up to so many rows, one thread builds the graph; several may miss rows that are being added."""


def graph_of(path: Path) -> Path:
    """Return the path of the graph of a file of rows."""
    return path.with_suffix(".usearch")


def write_graph(
    path: Path,
    blocks: Iterable[Array],
    width: int,
) -> None:
    """Build the graph of the rows in `blocks` (m, D), and save it to `path`.

    A row's key is its number among all rows, from 0. `width`: D. Raises OSError.
    """
    prepare_for_usearch()
    from usearch.index import Index

    index = Index(
        ndim=width, metric="l2sq", dtype="i8", connectivity=CONNECTIVITY, expansion_add=EXPANSION
    )
    pivots = np.empty((0, width), np.float32)
    for block in blocks:
        rows = block.astype(np.float32)
        if not len(pivots):
            pivots = rows[:: max(1, len(rows) // PIVOTS)]
        # Similar rows are added one after the other: the rows that the next one is compared with
        # are still in the processor's cache.
        nearest_pivot = (rows @ pivots.T).argmax(axis=1)
        order = np.argsort(nearest_pivot, kind="stable")
        keys = (len(index) + order).astype(np.uint64)
        added = _scale_to_int8(rows[order])
        threads = 1 if len(rows) <= ONE_THREAD else 0  # 0 means all
        index.add(
            keys,
            added,
            threads=threads,
        )
    try:
        index.save(str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error
    path.chmod(0o600)


def map_graph(path: Path) -> Any:
    """Memory-map a graph whose checksum has been checked. Raises RuntimeError."""
    prepare_for_usearch()
    from usearch.index import Index

    return Index.restore(path, view=True)


def find_candidates(
    graphs: Sequence[tuple[int, Any]],
    query_row: Floats,
    wanted: int,
) -> Ranking:
    """Return the places (m,) of the rows nearest to a query (D,), and their distances (m,).

    A distance is 1 minus the approximate cosine. `graphs`: (place of the first row, graph) of each
    file. A single graph returns about `wanted` rows. With several graphs, each returns `wanted`
    times the square root of its share of all rows: more in total, as each may miss some.
    """
    places = [np.empty(0, np.int64)]
    distances = [np.empty(0, np.float32)]
    (row,) = _scale_to_int8(query_row.astype(np.float32)[None])
    length = _choose_length(len(row))
    count = sum(len(graph) for _, graph in graphs)
    for start, graph in graphs:
        share = len(graph) / count
        depth = min(math.ceil(wanted * math.sqrt(share)), len(graph))
        graph.expansion_search = depth
        matches = graph.search(row, depth)
        places.append(start + matches.keys.astype(np.int64))
        # For vectors of equal length r, the squared distance is 2 r² (1 − cosine).
        distances.append(matches.distances / (2 * length**2))
    return np.concatenate(places), np.concatenate(distances)


def _scale_to_int8(rows: Floats) -> NDArray[np.int8]:
    """Return rows (m, D) scaled to equal lengths, in int8.

    Numbers more than about ten times as large as the others are clipped.
    """
    smallest = np.finfo(np.float32).tiny  # so that a row of zeros is not divided by 0
    lengths = np.linalg.norm(
        rows,
        axis=1,
        keepdims=True,
    )
    scales = _choose_length(rows.shape[1]) / np.maximum(lengths, smallest)
    scaled = np.rint(rows * scales)
    return np.asarray(np.clip(scaled, -127, 127), np.int8)


def _choose_length(width: int) -> float:
    """Return the Euclidean length to which rows of `width` numbers are scaled.

    A number that is ten times as large as the others is then at most 127.
    """
    return 127 * max(1.0, math.sqrt(width) / 10)
