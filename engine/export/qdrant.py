"""A Qdrant collection in local mode: dense vectors, BM25 as sparse vectors, fields as payload."""

from __future__ import annotations

import errno
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.export.serving import Block, create_target_folder, fields_of, read_blocks, search_facts
from engine.export.source import Source

COLLECTION = "chunks"
TERMS = "terms.json"


def write_qdrant(source: Source, folder: Path) -> None:
    """Write `qdrant/`, which `QdrantClient(path=…)` opens, and `terms.json`.

    `terms.json` gives the number of each term in sparse vectors. Points are written one by one into
    the file of local mode: the client would keep all in memory and sync the disk for each.
    """
    from qdrant_client import QdrantClient, models
    from qdrant_client.local.persistence import CollectionPersistence

    place = create_target_folder(
        search_facts(source),
        folder,
        "qdrant",
    )
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
        # The finished export is synced as a whole before it gets its name.
        file.storage.execute("PRAGMA synchronous = OFF")
        file.storage.execute("PRAGMA journal_mode = OFF")
        for block in read_blocks(source):
            for point in _build_points(block, numbers):
                _persist(file, point)
    (place / TERMS).write_text(json.dumps(numbers, ensure_ascii=False), encoding="utf-8")


def _persist(file: Any, point: Any) -> None:
    """Write a point; a failed write of SQLite is reported as a full disk."""
    try:
        file.persist(point)
    except file.storage.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error)) from error


def _build_points(block: Block, numbers: dict[str, int]) -> list[Any]:
    """Return the points of a block of chunks.

    `numbers`: term → its number in sparse vectors; new terms get the next number.
    """
    from qdrant_client import models

    points = []
    for position, (chunk, document, terms) in enumerate(block.chunks):
        sparse = {}
        for term, impact in terms.impacts.items():
            sparse[numbers.setdefault(term, len(numbers))] = impact
        indices = sorted(sparse)
        bm25 = models.SparseVector(indices=indices, values=[sparse[index] for index in indices])
        payload = {**fields_of(chunk, document), "codes": [*terms.codes]}
        vectors: dict[str, Any] = {"dense": block.vectors[position].tolist(), "bm25": bm25}
        if block.semantic_vectors is not None:
            vectors["semantic"] = block.semantic_vectors[position].tolist()
        points.append(models.PointStruct(id=chunk.id, vector=vectors, payload=payload))
    return points
