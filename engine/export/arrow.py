"""Chunks with vectors and BM25 terms as Arrow tables: a Parquet file or a LanceDB database.

In LanceDB, BM25's postings are a table of terms.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.export.serving import Block, create_target_folder, read_blocks, search_facts
from engine.export.source import Source

if TYPE_CHECKING:
    from engine.core.arrays import Floats

# Types of the fields that are no strings, apart from headings, a list of strings.
_TYPES = {
    "start": "int64",
    "end": "int64",
    "chunk_id": "int64",
    "page": "int64",
    "modified": "float64",
}


def write_parquet(source: Source, folder: Path) -> None:
    """Write `parquet/chunks.parquet`: for each chunk `vector`, `terms` and their `impacts`.

    Vectors that only semantic search uses are the column `semantic_vector`.
    """
    from pyarrow import parquet

    place = create_target_folder(
        search_facts(source),
        folder,
        "parquet",
    )
    tables = (build_table_with_terms(block) for block in read_blocks(source))
    first = next(tables)  # its schema is needed to open the file
    with parquet.ParquetWriter(str(place / "chunks.parquet"), first.schema) as file:
        file.write_table(first)
        for table in tables:
            file.write_table(table)


def build_table(block: Block) -> Any:
    """Return a pyarrow.Table of the chunks' visible fields, `codes` and vectors."""
    import pyarrow

    strings = pyarrow.list_(pyarrow.string())
    columns = {}
    for name, values in block.fields.items():
        kind = strings if name == "headings" else _TYPES.get(name, "string")
        columns[name] = pyarrow.array(values, kind)
    columns["codes"] = pyarrow.array([[*terms.codes] for *_, terms in block.chunks], strings)
    columns["vector"] = _convert_vectors(block.vectors)
    if block.semantic_vectors is not None:
        columns["semantic_vector"] = _convert_vectors(block.semantic_vectors)
    return pyarrow.table(columns)


def _convert_vectors(vectors: Floats) -> Any:
    """Return vectors (n, d) as an array of lists of d numbers."""
    import pyarrow

    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])


def build_table_with_terms(block: Block) -> Any:
    """Return `build_table` with the terms of each chunk and what each adds to its BM25 score."""
    import pyarrow

    impacts = [terms.impacts for *_, terms in block.chunks]
    names = pyarrow.array([[*terms] for terms in impacts], pyarrow.list_(pyarrow.string()))
    values = pyarrow.array(
        [[*terms.values()] for terms in impacts], pyarrow.list_(pyarrow.float32())
    )
    return build_table(block).append_column("terms", names).append_column("impacts", values)


def write_lance(source: Source, folder: Path) -> None:
    """Write `lancedb/`, which `lancedb.connect` opens.

    A term has a row for each block of chunks that contains it, so that no row grows with the
    corpus; an index finds the rows of a query's terms.
    """
    import lancedb
    import pyarrow
    from lancedb.index import BTree

    place = create_target_folder(
        search_facts(source),
        folder,
        "lancedb",
    )
    database = lancedb.connect(str(place))
    kinds = {
        "term": pyarrow.string(),
        "chunks": pyarrow.list_(pyarrow.int64()),
        "impacts": pyarrow.list_(pyarrow.float32()),
    }
    schema = pyarrow.schema([*kinds.items()])
    postings = database.create_table("postings", schema=schema)

    def write_postings() -> Iterator[Any]:
        """Add the postings of each block, and yield its table of chunks."""
        for block in read_blocks(source):
            postings.add(pyarrow.table(_build_postings(block), schema=schema))
            yield from build_table(block).to_batches()

    try:
        batches = write_postings()
        first = next(batches)
        reader = pyarrow.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        database.create_table("chunks", reader)
        postings.create_index("term", config=BTree())
    except (RuntimeError, OSError) as error:
        # LanceDB raises either for system errors, with paths of its source code.
        match = re.search(r"\(os error (\d+)\)", str(error))
        if match is None:
            raise
        number = int(match[1])
        raise OSError(number, os.strerror(number)) from error


def _build_postings(block: Block) -> dict[str, list[Any]]:
    """Return, by term, the chunks of a block that contain it, and what it adds to their scores."""
    postings: dict[str, dict[int, float]] = {}
    for chunk, _, terms in block.chunks:
        for term, impact in terms.impacts.items():
            postings.setdefault(term, {})[chunk.id] = impact
    return {
        "term": [*postings],
        "chunks": [[*impacts] for impacts in postings.values()],
        "impacts": [[*impacts.values()] for impacts in postings.values()],
    }
