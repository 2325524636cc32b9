"""The chunks with vectors and BM25 terms as Arrow tables, and the Parquet file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.export.serving import Block, blocks, described, search_facts
from engine.export.source import Source

_TYPES = {"start": "int64", "end": "int64", "chunk_id": "int64", "page": "int64", "modified": "float64"}


def write_parquet(source: Source, folder: Path) -> None:
    """`parquet/chunks.parquet`: a row for each chunk, with `vector`, and `terms` beside their `impacts`."""
    from pyarrow import parquet

    place = described(search_facts(source), folder, "parquet")
    tables = (with_terms(block) for block in blocks(source))
    first = next(tables)
    with parquet.ParquetWriter(str(place / "chunks.parquet"), first.schema) as file:
        file.write_table(first)
        for table in tables:
            file.write_table(table)


def chunk_table(block: Block) -> Any:
    """What users see of the chunks, their `codes` and their `vector`: a pyarrow.Table."""
    import pyarrow

    columns = {
        name: pyarrow.array(
            values, pyarrow.list_(pyarrow.string()) if name == "headings" else _TYPES.get(name, "string")
        )
        for name, values in block.fields.items()
    }
    codes = pyarrow.array([[*terms.codes] for *_, terms in block.chunks], pyarrow.list_(pyarrow.string()))
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(block.vectors.ravel()), block.vectors.shape[1])
    return pyarrow.table({**columns, "codes": codes, "vector": vectors})


def with_terms(block: Block) -> Any:
    """`chunk_table` with the terms of each chunk and what each adds to its BM25 score."""
    import pyarrow

    impacts = [terms.impacts for *_, terms in block.chunks]
    names = pyarrow.array([[*one] for one in impacts], pyarrow.list_(pyarrow.string()))
    values = pyarrow.array([[*one.values()] for one in impacts], pyarrow.list_(pyarrow.float32()))
    return chunk_table(block).append_column("terms", names).append_column("impacts", values)
