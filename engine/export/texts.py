"""Chunks, queries and judgments as JSON lines (the latter two as in BEIR); vectors as .npy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.records import Chunk
from engine.evaluation.judgments import Judgment, judge_generated, judge_queries
from engine.evaluation.lists.preferences import read_preferences
from engine.export.serving import fields_of
from engine.export.source import Source

if TYPE_CHECKING:
    from engine.vectors.index import VectorIndex

Rows = Iterable[Mapping[str, Any]]
_BLOCK = 8192  # Vectors in memory at once.
_LABEL_FIELDS = (
    "chunk_id",
    "path",
    "start",
    "end",
    "content_hash",
)


def write_chunks(source: Source, folder: Path) -> None:
    """Write `chunks.jsonl`: every chunk with its document's path, title and place."""
    documents = {document.id: document for document in source.store.documents()}

    def describe(chunk: Chunk) -> Mapping[str, Any]:
        return {**fields_of(chunk, documents[chunk.document_id]), "tokens": chunk.tokens}

    _write_lines(folder / "chunks.jsonl", map(describe, source.store.each_chunk()))


def write_vectors(source: Source, folder: Path) -> None:
    """Write `vectors/vectors.npy`, float32 (n, d) at unit norm, and `vectors/ids.jsonl`.

    Line i of ids.jsonl describes row i. Rows are in order of chunk id, without chunks of deleted
    documents. Vectors that only semantic search uses go into `semantic-vectors/` in the same way.
    """
    _write_vectors(
        source,
        source.index,
        folder / "vectors",
    )
    if source.semantic_index is not None:
        _write_vectors(
            source,
            source.semantic_index,
            folder / "semantic-vectors",
        )


def _write_vectors(
    source: Source,
    index: VectorIndex,
    target: Path,
) -> None:
    """Write the vectors of one index, and a line about the chunk of each row."""
    import numpy as np

    target.mkdir()
    all_keys, stored = index.stored()
    keys = all_keys.tolist()
    owners = source.store.owners_of(keys)
    documents = {document.id: document for document in source.store.documents()}
    # The rows of chunks whose documents are not deleted.
    kept_rows = [row for row, key in enumerate(keys) if owners.get(key) in documents]
    with (
        (target / "vectors.npy").open("wb") as array,
        (target / "ids.jsonl").open("w", encoding="utf-8", newline="\n") as lines,
    ):
        shape = (len(kept_rows), index.width)
        header = {
            "descr": "<f4",
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(array, header)
        for first in range(0, len(kept_rows), _BLOCK):
            block = kept_rows[first : first + _BLOCK]
            vectors = index.form.vectors(stored[block])
            # A memory map would crash on a full disk.
            array.write(vectors.astype("<f4").tobytes())
            block_keys = [keys[row] for row in block]
            chunks = source.store.chunks_by_id(block_keys)
            for key in block_keys:
                fields = fields_of(chunks[key], documents[owners[key]])
                label = {name: fields[name] for name in _LABEL_FIELDS}
                lines.write(json.dumps(label, ensure_ascii=False) + "\n")


def write_beir(source: Source, folder: Path) -> None:
    """Write queries and judgments in `beir/chunks` and `beir/documents`.

    Queries answered by chunks are in the first, those answered by whole documents in the second.
    The splits of qrels are train, validation and heldout for the generated queries, test for the
    judged ones. `beir/preferences.jsonl`: which of two lists was better for a query.
    """
    chunks = source.store.chunks()
    documents = source.store.documents(with_text=True)
    judgments = judge_queries(
        source.store.judged(),
        chunks,
        documents,
    )
    usable = [judgment for judgment in judgments if judgment.usable]
    of_chunks = [("test", judgment) for judgment in usable if judgment.level == "chunk"]
    of_documents = [("test", judgment) for judgment in usable if judgment.level == "document"]
    names = {chunk.id: str(chunk.id) for chunk in chunks}
    for query in source.store.queries():
        if query.chunk_id in names:
            of_chunks.append((query.split, judge_generated([query], {})[0]))
    titles = {document.id: document.title for document in documents}
    chunk_rows = (
        {"_id": names[chunk.id], "title": titles[chunk.document_id], "text": chunk.text}
        for chunk in chunks
    )
    _write_set(
        folder / "beir" / "chunks",
        chunk_rows,
        of_chunks,
        names,
    )
    if of_documents:
        external = {document.id: document.external_id or document.path for document in documents}
        keys = _make_unique(external)
        document_rows = (
            {"_id": keys[document.id], "title": document.title, "text": document.text}
            for document in documents
        )
        _write_set(
            folder / "beir" / "documents",
            document_rows,
            of_documents,
            keys,
        )
    preferences = read_preferences(source.project)
    if preferences:
        _write_lines(folder / "beir" / "preferences.jsonl", map(asdict, preferences))


def _write_set(
    folder: Path, corpus: Rows, judged: list[tuple[str, Judgment]], names: Mapping[int, str]
) -> None:
    """Write a data set in BEIR's layout.

    `corpus`: rows of corpus.jsonl. `judged`: split and judgment of each query. `names`: id of a
    chunk or document in judgments → its id in the corpus.
    """
    (folder / "qrels").mkdir(parents=True)
    query_ids = _make_unique({number: judgment.key for number, (_, judgment) in enumerate(judged)})
    queries = []
    qrels: dict[str, list[str]] = {}
    for number, (split, judgment) in enumerate(judged):
        query_id = query_ids[number]
        queries.append({"_id": query_id, "text": judgment.text})
        lines = qrels.setdefault(split, ["query-id\tcorpus-id\tscore\n"])
        for item, grade in judgment.grades.items():
            lines.append(f"{query_id}\t{names[item]}\t{grade}\n")
    _write_lines(folder / "corpus.jsonl", corpus)
    _write_lines(folder / "queries.jsonl", queries)
    for split, lines in qrels.items():
        with (folder / "qrels" / f"{split}.tsv").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)


def _make_unique(names: Mapping[int, str]) -> dict[int, str]:
    """Return distinct names that are valid in a tab-separated table."""
    unique = {}
    taken: set[str] = set()
    for key, name in names.items():
        unique_name = re.sub(r"\s+", " ", name).strip() or str(key)
        while unique_name in taken:
            unique_name = f"{unique_name} ({key})"
        unique[key] = unique_name
        taken.add(unique_name)
    return unique


def _write_lines(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
