"""A collection of Qdrant's local mode: dense vectors, BM25 as sparse ones, and what users see of
the chunks as payload.
"""

from __future__ import annotations

import errno
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.export.serving import Block, blocks, described, fields_of, search_facts
from engine.export.source import Source

COLLECTION = "chunks"
TERMS = "terms.json"


def write_qdrant(source: Source, folder: Path) -> None:
    """`qdrant/`: what `QdrantClient(path=…)` opens, and `terms.json`, the number of each term in
    sparse vectors.

    Points are written one by one into the file of local mode: its client would keep all in memory,
    and wait for the disk at each.
    """
    from qdrant_client import QdrantClient, models
    from qdrant_client.local.persistence import CollectionPersistence

    place = described(search_facts(source), folder, "qdrant")
    dense = {"dense": models.VectorParams(size=source.index.width, distance=models.Distance.COSINE)}
    if source.semantic_index is not None:
        width = source.semantic_index.width
        dense["semantic"] = models.VectorParams(size=width, distance=models.Distance.COSINE)
    with closing(QdrantClient(path=str(place))) as client:
        client.create_collection(
            COLLECTION,
            vectors_config=dense,
            sparse_vectors_config={"bm25": models.SparseVectorParams()},
        )
    numbers: dict[str, int] = {}
    with closing(CollectionPersistence(str(place / "collection" / COLLECTION))) as file:
        file.storage.execute(
            "PRAGMA synchronous = OFF"
        )  # an export counts when all of it is synced
        file.storage.execute("PRAGMA journal_mode = OFF")
        for block in blocks(source):
            for point in _points(block, numbers):
                _persist(file, point)
    (place / TERMS).write_text(json.dumps(numbers, ensure_ascii=False), encoding="utf-8")


def _persist(file: Any, point: Any) -> None:
    try:
        file.persist(point)
    except file.storage.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error)) from error


def _points(block: Block, numbers: dict[str, int]) -> list[Any]:
    """The points of chunks; terms that have no number get the next one."""
    from qdrant_client import models

    found = []
    for place, (chunk, document, terms) in enumerate(block.chunks):
        sparse = sorted(
            (numbers.setdefault(term, len(numbers)), impact)
            for term, impact in terms.impacts.items()
        )
        bm25 = models.SparseVector(
            indices=[one for one, _ in sparse], values=[impact for _, impact in sparse]
        )
        payload = {**fields_of(chunk, document), "codes": [*terms.codes]}
        vectors: dict[str, Any] = {"dense": block.vectors[place].tolist(), "bm25": bm25}
        if block.semantic_vectors is not None:
            vectors["semantic"] = block.semantic_vectors[place].tolist()
        found.append(models.PointStruct(id=chunk.id, vector=vectors, payload=payload))
    return found
