"""A graph over the rows of one large file of an index, which names candidates (HNSW, Malkov and Yashunin 2018; usearch).

It is mapped, not read, so that opening it costs nothing. Its own copy of the rows is int8: what it names is compared exactly after.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.encoders.graph.native_libraries import prepare_for_usearch

CONNECTIVITY, EXPANSION = (
    16,
    64,
)  # with 256 candidates recall@10 .998, in half the time of usearch's 128 (docs/log/scale.md)
_BLOCK = 16_384


def graph_of(path: Path) -> Path:
    """Where the graph of a file of rows lies."""
    return path.with_suffix(".usearch")


def write_graph(path: Path, rows: NDArray[Any], *, of_cosines: bool) -> None:
    """Build the graph of rows (n, D) under their places and save it. `of_cosines`: else int8 is too coarse for them.

    Raises OSError.
    """
    index = _empty(rows.shape[1], "i8" if of_cosines else "f16")
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].astype(np.float32)
        index.add(np.arange(start, start + len(block), dtype=np.uint64), block)
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


def candidates(graph: Any, query_row: NDArray[np.float32], wanted: int) -> NDArray[np.int64]:
    """Places (m,) of about as many rows as are wanted, of those nearest to a query (D,)."""
    graph.expansion_search = wanted
    return np.asarray(graph.search(query_row.astype(np.float32), wanted).keys, np.int64)


def _empty(width: int, dtype: str) -> Any:
    prepare_for_usearch()
    from usearch.index import Index

    return Index(ndim=width, metric="cos", dtype=dtype, connectivity=CONNECTIVITY, expansion_add=EXPANSION)
