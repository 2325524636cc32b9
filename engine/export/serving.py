"""What another search engine needs for the same hits: chunks, vectors, BM25 terms, ranking."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.assets import asset_path
from engine.core.errors import NotBuiltError, UsageError
from engine.core.records import Chunk, Document
from engine.export.source import Source
from engine.project.store.artifact_info import LexicalInfo, VectorsInfo
from engine.search.listing import MIN_DEPTH
from engine.search.loaded import LoadedProject

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from engine.core.arrays import Floats
    from engine.lexical.impacts import ChunkTerms

BLOCK = 4096  # Chunks in memory at once.
_TEMPLATE = "search.md.j2"


@dataclass(frozen=True, slots=True)
class Block:
    """Some chunks in order of id, with all that another search engine needs."""

    chunks: list[tuple[Chunk, Document, ChunkTerms]]  # Each with its document and its terms.
    vectors: Floats  # Unit vectors (n, d).
    # Those of semantic search, if it has its own.
    semantic_vectors: Floats | None = None

    @property
    def fields(self) -> dict[str, list[Any]]:
        """The visible fields of the chunks, by name."""
        rows = [fields_of(chunk, document) for chunk, document, _ in self.chunks]
        return {name: [row[name] for row in rows] for name in rows[0]}


def fields_of(chunk: Chunk, document: Document) -> dict[str, Any]:
    """Return the fields of a chunk that users see.

    `document`: the id of the document that is the same in every run.
    """
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
        "tags": document.tags,
        "language": document.language,
        "modified": document.modified,
        "text": chunk.text,
    }


def check_complete(source: Source) -> None:
    """Raise NotBuiltError unless every index holds exactly the chunks of the database."""
    lexical = source.need(LexicalInfo).info
    counts = {
        source.index.count,
        lexical.chunks,
        source.store.count("chunks"),
    }
    if source.semantic_index is not None:
        counts.add(source.semantic_index.count)
    if len(counts) > 1 or lexical.chunks_fingerprint != source.store.corpus_fingerprint():
        raise _outdated_error(source)


def check_searchable(source: Source) -> None:
    """Do as `check_complete`, and refuse vectors that are not compared by cosine.

    Raises UsageError for such vectors.
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


def read_blocks(source: Source) -> Iterator[Block]:
    """Yield all chunks in blocks.

    Memory does not grow with the number of chunks, except for the opened index. Raises
    NotBuiltError as `check_complete`, and DamagedError.
    """
    import numpy as np

    from engine.lexical.impacts import chunk_terms
    from engine.lexical.index import LexicalIndex

    keys = np.sort(source.index.keys())
    semantic = source.semantic_index
    if semantic is not None and not np.array_equal(keys, np.sort(semantic.keys())):
        raise _outdated_error(source)
    terms = chunk_terms(LexicalIndex.open(source.project.folder_of(source.need(LexicalInfo))))
    for first in range(0, len(keys), BLOCK):
        block_keys = keys[first : first + BLOCK]
        ids = block_keys.tolist()
        chunks = source.store.chunks_by_id(ids)
        document_ids = {chunk.document_id for chunk in chunks.values()}
        documents = {key: source.store.document_card(key) for key in document_ids}
        block_terms = list(islice(terms, len(ids)))
        if [entry.id for entry in block_terms] != ids or len(chunks) < len(ids):
            raise _outdated_error(source)
        rows = []
        for entry in block_terms:
            chunk = chunks[entry.id]
            rows.append((chunk, documents[chunk.document_id], entry))
        vectors = source.index.form.vectors(source.index.rows(block_keys))
        semantic_vectors = None
        if semantic is not None:
            semantic_vectors = semantic.form.vectors(semantic.rows(block_keys))
        yield Block(rows, vectors, semantic_vectors)


def search_facts(source: Source) -> dict[str, Any]:
    """Return how search ranks and with what, for the manifest; only JSON types."""
    lexical = source.need(LexicalInfo)
    vectors = source.need(VectorsInfo)
    form = source.index.form
    with closing(LoadedProject(source.project)) as loaded:
        search_settings = loaded.fusion(source.settings.search)
    fingerprints: dict[str, Any] = {
        "encoder": vectors.info.encoder,
        "chunk_encoder": vectors.info.chunk_encoder,
        "vectors": vectors.fingerprint,
        "keywords": lexical.fingerprint,
    }
    if len(source.modes) > 1:
        semantic = source.vectors("semantic")
        fingerprints["semantic"] = {
            "encoder": semantic.info.encoder,
            "chunk_encoder": semantic.info.chunk_encoder,
            "vectors": semantic.fingerprint,
        }
    return {
        "project": source.project.name,
        "mode": search_settings.mode_in_json,
        "fusion": search_settings.fusion,
        "weight": search_settings.weight,
        "rrf_k": search_settings.rrf_k,
        "depth": MIN_DEPTH,
        "chunks": source.index.count,
        "dimension": source.index.width,
        "similarity": "cosine" if form.of_cosines else form.name,
        "stored_as": source.index.manifest["dtype"],
        "language": lexical.info.language,
        "other_languages": [*lexical.info.languages],
        "query_prompt": source.in_use.source.prompts.query,
        "fingerprints": fingerprints,
    }


def load_template(name: str, **filters: Callable[..., str]) -> Template:
    """Load a template of assets/export; an undefined name in it is an error."""
    environment = _build_environment()
    environment.filters.update(filters)
    return environment.get_template(name)


@cache
def _build_environment() -> Environment:
    """Return the environment of templates. It is shared, so that each is compiled once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(asset_path("export")),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def create_target_folder(
    facts: dict[str, Any],
    folder: Path,
    target: str,
) -> Path:
    """Create `folder/target` with a README that shows a query there, and a manifest of the facts.

    `facts`: from `search_facts`. Returns the folder.
    """
    vectors = facts["fingerprints"]
    has_two_indexes = vectors.get("semantic", vectors)["chunk_encoder"] != vectors["chunk_encoder"]
    place = folder / target
    place.mkdir()
    template = load_template(_TEMPLATE)
    text = template.render(
        target=target,
        has_two_indexes=has_two_indexes,
        **facts,
    )
    (place / "README.md").write_text(
        text,
        encoding="utf-8",
        newline="\n",
    )
    manifest = json.dumps(facts, ensure_ascii=False, indent=1) + "\n"
    (place / "manifest.json").write_text(
        manifest,
        encoding="utf-8",
        newline="\n",
    )
    return place


def _outdated_error(source: Source) -> NotBuiltError:
    """Return the error for indexes and a database that do not hold the same chunks."""
    return NotBuiltError(
        "The indexes do not hold the documents as they are now.",
        "Search elsewhere would find other chunks than here.",
        f"Run 'engine run {source.project.argument}'.",
        code="index-outdated",
        stage="embed",
    )
