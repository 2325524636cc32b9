"""A graph over the rows of one large file of an index, which names candidates (HNSW, Malkov and
Yashunin 2018; usearch).

It is mapped, not read, so that opening it costs nothing. Its own copy of the rows is int8: what it
names is compared exactly after. These copies have one length, so that their distances order them as
cosines do, at two thirds of the cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.encoders.graph.native_libraries import prepare_for_usearch

CONNECTIVITY = 16  # docs/log/scale.md
EXPANSION = 80
PIVOTS = 256
# rows up to which threads gain nothing: one does not find as neighbours what others are just adding
ONE_THREAD = 1000


def graph_of(path: Path) -> Path:
    """Where the graph of a file of rows lies."""
    return path.with_suffix(".usearch")


def write_graph(
    path: Path, blocks: Iterable[NDArray[Any]], width: int, *, of_cosines: bool
) -> None:
    """Build the graph of rows, which come in `blocks` (m, D), under their places and save it.

    `of_cosines`: else int8 is too coarse for them.

    Raises OSError.
    """
    prepare_for_usearch()
    from usearch.index import Index

    metric, dtype = ("l2sq", "i8") if of_cosines else ("cos", "f16")
    index = Index(
        ndim=width, metric=metric, dtype=dtype, connectivity=CONNECTIVITY, expansion_add=EXPANSION
    )
    pivots = np.empty((0, width), np.float32)
    for block in blocks:
        rows = block.astype(np.float32)
        if len(pivots):
            pivots = pivots
        else:
            pivots = rows[:: max(1, len(rows) // PIVOTS)]
        # neighbours one after the other: what the next is compared with is at hand in the
        # processor's cache
        order = np.argsort((rows @ pivots.T).argmax(axis=1), kind="stable")
        added = rows[order]
        threads = 1 if len(rows) <= ONE_THREAD else 0  # 0: all
        index.add(
            (len(index) + order).astype(np.uint64),
            _copies(added) if of_cosines else added,
            threads=threads,
        )
    try:
        index.save(str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error
    path.chmod(0o600)


def map_graph(path: Path) -> Any:
    """The graph of a file whose checksum has been checked; also one of cosines, as int8 graphs
    were. Raises RuntimeError.
    """
    prepare_for_usearch()
    from usearch.index import Index

    return Index.restore(path, view=True)


def candidates(
    graphs: Sequence[tuple[int, Any]], query_row: NDArray[np.float32], wanted: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Places (m,) of rows nearest to a query (D,), and 1 minus their coarse cosines.

    `graphs`: each after the place of its first row. One names about as many as are wanted, of
        several each the root of its share
    of the rows: more in all, as each may miss some.
    """
    places = [np.empty(0, np.int64)]
    distances = [np.empty(0, np.float32)]
    count = sum(len(graph) for _, graph in graphs)
    for start, graph in graphs:
        graph.expansion_search = share = min(
            math.ceil(wanted * math.sqrt(len(graph) / count)), len(graph)
        )
        of_copies = graph.metric_kind.name == "L2sq"
        row = query_row.astype(np.float32)
        found = graph.search(_copies(row[None])[0] if of_copies else row, share)
        places.append(start + found.keys.astype(np.int64))
        distances.append(found.distances / (2 * _length(len(row)) ** 2 if of_copies else 1))
    return np.concatenate(places), np.concatenate(distances)


def _copies(rows: NDArray[np.float32]) -> NDArray[np.int8]:
    """Rows (m, D) with one length, in int8.

    Numbers that are ten times as large as the others are cut off.
    """
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.asarray(
        np.clip(np.rint(rows * (_length(rows.shape[1]) / lengths)), -127, 127), np.int8
    )


def _length(width: int) -> float:
    return 127 * max(1.0, math.sqrt(width) / 10)
