"""The chunks with vectors and BM25 terms as Arrow tables: in a Parquet file, or in a LanceDB
database, which has BM25's postings in a table of terms.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.export.serving import Block, blocks, described, search_facts
from engine.export.source import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TYPES = {
    "start": "int64",
    "end": "int64",
    "chunk_id": "int64",
    "page": "int64",
    "modified": "float64",
}


def write_parquet(source: Source, folder: Path) -> None:
    """`parquet/chunks.parquet`: a row for each chunk, with `vector`, and `terms` beside their
    `impacts`.

    Where semantic search has vectors of its own, they are the column `semantic_vector`.
    """
    from pyarrow import parquet

    place = described(search_facts(source), folder, "parquet")
    tables = (with_terms(block) for block in blocks(source))
    first = next(tables)
    with parquet.ParquetWriter(str(place / "chunks.parquet"), first.schema) as file:
        file.write_table(first)
        for table in tables:
            file.write_table(table)


def chunk_table(block: Block) -> Any:
    """What users see of the chunks, their `codes` and their `vector` or vectors: a
    pyarrow.Table.
    """
    import pyarrow

    columns = {
        name: pyarrow.array(
            values,
            pyarrow.list_(pyarrow.string()) if name == "headings" else _TYPES.get(name, "string"),
        )
        for name, values in block.fields.items()
    }
    codes = pyarrow.array(
        [[*terms.codes] for *_, terms in block.chunks], pyarrow.list_(pyarrow.string())
    )
    table = pyarrow.table({**columns, "codes": codes, "vector": _as_lists(block.vectors)})
    if block.semantic_vectors is None:
        return table
    return table.append_column("semantic_vector", _as_lists(block.semantic_vectors))


def _as_lists(vectors: NDArray[np.float32]) -> Any:
    import pyarrow

    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])


def with_terms(block: Block) -> Any:
    """`chunk_table` with the terms of each chunk and what each adds to its BM25 score."""
    import pyarrow

    impacts = [terms.impacts for *_, terms in block.chunks]
    names = pyarrow.array([[*one] for one in impacts], pyarrow.list_(pyarrow.string()))
    values = pyarrow.array([[*one.values()] for one in impacts], pyarrow.list_(pyarrow.float32()))
    return chunk_table(block).append_column("terms", names).append_column("impacts", values)


def write_lance(source: Source, folder: Path) -> None:
    """`lancedb/`: what `lancedb.connect` opens.

    A term has a row for each block of chunks that holds it, so that none grows with the corpus; the
    rows of a query's terms are found by an index.
    """
    import lancedb
    import pyarrow
    from lancedb.index import BTree

    place = described(search_facts(source), folder, "lancedb")
    database = lancedb.connect(str(place))
    kinds = {
        "term": pyarrow.string(),
        "chunks": pyarrow.list_(pyarrow.int64()),
        "impacts": pyarrow.list_(pyarrow.float32()),
    }
    postings = database.create_table("postings", schema=pyarrow.schema([*kinds.items()]))

    def batches() -> Iterator[Any]:
        for block in blocks(source):
            postings.add(pyarrow.table(_postings(block), schema=pyarrow.schema([*kinds.items()])))
            yield from chunk_table(block).to_batches()

    try:
        made = batches()
        first = next(made)
        database.create_table(
            "chunks", pyarrow.RecordBatchReader.from_batches(first.schema, chain([first], made))
        )
        postings.create_index("term", config=BTree())
    except (
        RuntimeError,
        OSError,
    ) as error:  # what the system refuses comes as either, with paths of LanceDB's source
        if not (found := re.search(r"\(os error (\d+)\)", str(error))):
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from error


def _postings(block: Block) -> dict[str, list[Any]]:
    """By term, the chunks of a block that hold it, and what it adds to their scores."""
    held: dict[str, dict[int, float]] = {}
    for chunk, _, terms in block.chunks:
        for term, impact in terms.impacts.items():
            held.setdefault(term, {})[chunk.id] = impact
    return {
        "term": [*held],
        "chunks": [[*chunks] for chunks in held.values()],
        "impacts": [[*chunks.values()] for chunks in held.values()],
    }
