"""Files for OpenSearch: an index, a search pipeline, and the chunks for its bulk interface.

OpenSearch computes BM25 itself, with Lucene's formula as here, over the terms of our index joined
by spaces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import filterfalse
from pathlib import Path
from typing import Any

from engine.export.serving import create_target_folder, fields_of, read_blocks, search_facts
from engine.export.source import Source
from engine.lexical.bm25 import K1, B
from engine.lexical.codes import is_whole

BULK_BYTES = 50_000_000
"""Largest size of a file: a request may have 100 MB."""
# Fields of a chunk → their types in the index.
_KINDS = {
    "chunk_id": "long",
    "start": "long",
    "end": "long",
    "page": "integer",
    "modified": "double",
    "text": "text",
    "title": "text",
    "headings": "text",
    "path": "keyword",
    "document": "keyword",
    "content_hash": "keyword",
    "author": "keyword",
    "tags": "text",
    "language": "keyword",
    "codes": "keyword",
}


def write_opensearch(source: Source, folder: Path) -> None:
    """Write `opensearch/`: `index.json`, `pipeline.json`, and files such as `bulk-0001.ndjson`."""
    facts = search_facts(source)
    place = create_target_folder(facts, folder, "opensearch")
    widths = {"vector": source.index.width}
    if source.semantic_index is not None:
        widths["semantic_vector"] = source.semantic_index.width
    _write_json(place / "index.json", build_index(widths))
    if facts["mode"] == "hybrid":
        _write_json(place / "pipeline.json", build_pipeline(facts))
    number = 0
    file = None
    for block in read_blocks(source):
        for position, (chunk, document, terms) in enumerate(block.chunks):
            # Also the codes made of words: of joined words, such as `-email`, and of sequences.
            codes = [*terms.codes, *filterfalse(is_whole, terms.impacts)]
            row = {
                **fields_of(chunk, document),
                "codes": codes,
                "words": terms.words,
            }
            row["vector"] = block.vectors[position].tolist()
            if block.semantic_vectors is not None:
                row["semantic_vector"] = block.semantic_vectors[position].tolist()
            if file is None or file.tell() > BULK_BYTES:
                if file:
                    file.close()
                number += 1
                file = (place / f"bulk-{number:04}.ndjson").open("wb")
            file.write(f'{{"index": {{"_id": "{chunk.id}"}}}}\n{json.dumps(row)}\n'.encode())
    if file:
        file.close()


def build_index(widths: Mapping[str, int]) -> dict[str, Any]:
    """Return settings and mappings of the index, with vector fields of these `widths`.

    It has one shard, since each shard counts words for BM25 on its own.
    """
    vectors = {
        name: {
            "type": "knn_vector",
            "dimension": width,
            "space_type": "cosinesimil",
            "method": {"name": "hnsw", "engine": "lucene"},
        }
        for name, width in widths.items()
    }
    return {
        "settings": {
            "index": {
                "knn": True,
                "number_of_shards": 1,
                "similarity": {"words": {"type": "BM25", "k1": K1, "b": B}},
            }
        },
        "mappings": {
            "dynamic": False,
            "properties": {
                **{name: {"type": kind} for name, kind in _KINDS.items()},
                "words": {
                    "type": "text",
                    "analyzer": "whitespace",
                    "similarity": "words",
                    "index_options": "freqs",
                },
                **vectors,
            },
        },
    }


def build_pipeline(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the fusion in use, of the semantic scores and those of BM25, in this order."""
    if facts["fusion"] == "rrf":
        combination = {"technique": "rrf", "rank_constant": facts["rrf_k"]}
        return {
            "phase_results_processors": [{"score-ranker-processor": {"combination": combination}}]
        }
    weights = {"weights": [facts["weight"], 1 - facts["weight"]]}
    processor = {
        "normalization": {"technique": "min_max"},
        "combination": {"technique": "arithmetic_mean", "parameters": weights},
    }
    return {"phase_results_processors": [{"normalization-processor": processor}]}


def _write_json(path: Path, body: dict[str, Any]) -> None:
    path.write_text(
        json.dumps(body, indent=1) + "\n",
        encoding="utf-8",
        newline="\n",
    )
