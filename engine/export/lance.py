"""A LanceDB database: a table of chunks with their vectors, and BM25's postings in a table of terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from engine.export.parquet import chunk_table
from engine.export.serving import Block, blocks, described, search_facts
from engine.export.source import Source


def write_lance(source: Source, folder: Path) -> None:
    """`lancedb/`: what `lancedb.connect` opens. A term has a row for each block of chunks that holds it, so that none grows with
    the corpus; the rows of a query's terms are found by an index."""
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
        database.create_table("chunks", pyarrow.RecordBatchReader.from_batches(first.schema, chain([first], made)))
        postings.create_index("term", config=BTree())
    except RuntimeError as error:  # what the system refuses comes as either
        raise OSError(*map(int, re.findall(r"\(os error (\d+)\)", str(error))[:1]), str(error)) from error


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
