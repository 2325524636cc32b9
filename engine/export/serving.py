"""What a search engine elsewhere needs for the hits of this one: every chunk with its vector and
its BM25 terms, and how search ranks by the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.assets import asset_path
from engine.core.errors import NotBuiltError, UsageError
from engine.core.records import Chunk, Document
from engine.export.source import Source
from engine.project.store.artifact_info import LexicalInfo, VectorsInfo
from engine.search.listing import MIN_DEPTH
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.impacts import ChunkTerms

BLOCK = 4096  # chunks in memory at once
_TEMPLATE = "export/search.md.j2"


@dataclass(frozen=True, slots=True)
class Block:
    """Chunks in order of id, each with its document and its terms, and their unit vectors (n, d).

    `semantic_vectors`: those of semantic search, where it has its own.
    """

    chunks: list[tuple[Chunk, Document, ChunkTerms]]
    vectors: NDArray[np.float32]
    semantic_vectors: NDArray[np.float32] | None = None

    @property
    def fields(self) -> dict[str, list[Any]]:
        """What users see of the chunks, by name."""
        rows = [fields_of(chunk, document) for chunk, document, _ in self.chunks]
        return {name: [row[name] for row in rows] for name in rows[0]}


def fields_of(chunk: Chunk, document: Document) -> dict[str, Any]:
    """What users see of a chunk. `document`: the id that no run changes."""
    return {
        "chunk_id": chunk.id,
        "path": document.path,
        "start": chunk.start,
        "end": chunk.end,
        "content_hash": chunk.content_hash,
        "document": document.stable_id,
        "title": document.title,
        "headings": [*chunk.headings],
        "page": chunk.page,
        "author": document.author,
        "language": document.language,
        "modified": document.modified,
        "text": chunk.text,
    }


def check_complete(source: Source) -> None:
    """Raises NotBuiltError where an index does not hold just the chunks that there are."""
    known = source.need(LexicalInfo).info
    counts = {source.index.count, known.chunks, source.store.counts()["chunks"]}
    if source.semantic_index is not None:
        counts.add(source.semantic_index.count)
    if len(counts) > 1 or known.chunks_fingerprint != source.store.corpus_fingerprint():
        raise _outdated(source)


def check_searchable(source: Source) -> None:
    """As `check_complete`.

    Raises UsageError where search does not rank by the cosine of vectors.
    """
    indexes = [source.index, source.semantic_index]
    if not all(index.form.of_cosines for index in indexes if index is not None):
        raise UsageError(
            "The encoder's vectors cannot be searched elsewhere.",
            "It is hyperbolic, and other programs compare by cosine.",
            "Export the vectors with what they stand for: --only parquet.",
            code="similarity-unsupported",
            command="export",
        )
    check_complete(source)


def blocks(source: Source) -> Iterator[Block]:
    """All chunks.

    Memory does not grow with them, but for what an opened index takes. Raises NotBuiltError as
    `check_complete`, DamagedError.
    """
    import numpy as np

    from engine.lexical.impacts import chunk_terms
    from engine.lexical.index import LexicalIndex

    keys = np.sort(source.index.keys())
    semantic = source.semantic_index
    if semantic is not None and not np.array_equal(keys, np.sort(semantic.keys())):
        raise _outdated(source)
    terms = chunk_terms(LexicalIndex.open(source.project.folder_of(source.need(LexicalInfo))))
    for first in range(0, len(keys), BLOCK):
        wanted = keys[first : first + BLOCK]
        chunks = source.store.chunks_by_id(wanted.tolist())
        documents = {
            key: source.store.document_card(key)
            for key in {one.document_id for one in chunks.values()}
        }
        found = [next(terms, None) for _ in wanted]
        if [one and one.id for one in found] != wanted.tolist() or len(chunks) < len(wanted):
            raise _outdated(source)
        rows = [
            (chunk := chunks[one.id], documents[chunk.document_id], one) for one in found if one
        ]
        vectors = source.index.form.vectors(source.index.rows(wanted))
        yield Block(
            rows,
            vectors,
            semantic.form.vectors(semantic.rows(wanted)) if semantic is not None else None,
        )


def search_facts(source: Source) -> dict[str, Any]:
    """How search ranks, and by what: what a manifest says beside the chunks. JSON types only."""
    lexical = source.need(LexicalInfo)
    vectors = source.need(VectorsInfo)
    form = source.index.form
    with closing(Loaded(source.project)) as loaded:
        chosen = loaded.fusion(source.settings.search)
    semantic = source.vectors("semantic")
    own: dict[str, Any] = {}
    if len(source.modes) > 1:
        own = {
            "semantic": {
                "encoder": semantic.info.encoder,
                "chunk_encoder": semantic.info.chunk_encoder,
                "vectors": semantic.fingerprint,
            }
        }
    return {
        "project": source.project.name,
        "mode": chosen.mode_in_json,
        "fusion": chosen.fusion,
        "weight": chosen.weight,
        "rrf_k": chosen.rrf_k,
        "depth": MIN_DEPTH,
        "chunks": source.index.count,
        "dimension": source.index.width,
        "similarity": "cosine" if form.of_cosines else form.name,
        "stored_as": source.index.manifest["dtype"],
        "language": lexical.info.language,
        "other_languages": [*lexical.info.languages],
        "query_prompt": source.in_use.source.prompts.query,
        "fingerprints": {
            "encoder": vectors.info.encoder,
            "chunk_encoder": vectors.info.chunk_encoder,
            "vectors": vectors.fingerprint,
            "keywords": lexical.fingerprint,
            **own,
        },
    }


def described(facts: dict[str, Any], folder: Path, target: str) -> Path:
    """`folder/target`, with a README that holds the code of a query there, and a manifest of the
    `search_facts`.
    """
    vectors = facts["fingerprints"]
    has_two_indexes = vectors.get("semantic", vectors)["chunk_encoder"] != vectors["chunk_encoder"]
    from jinja2 import Environment, StrictUndefined

    place = folder / target
    place.mkdir()
    environment = Environment(
        autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(asset_path(_TEMPLATE).read_text(encoding="utf-8")).render(
        target=target, has_two_indexes=has_two_indexes, **facts
    )
    (place / "README.md").write_text(text, encoding="utf-8")
    (place / "manifest.json").write_text(
        json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    return place


def _outdated(source: Source) -> NotBuiltError:
    return NotBuiltError(
        "The indexes do not hold the documents as they are now.",
        "Search elsewhere would find other chunks than here.",
        f"Run 'engine run {source.project.argument}'.",
        code="index-outdated",
        stage="embed",
    )
