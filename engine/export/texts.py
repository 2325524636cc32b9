"""Chunks, queries and judgments as JSON lines, the latter two in BEIR's layout; vectors as .npy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.evaluation.judgments import Judgment, from_queries, relevant_chunks
from engine.evaluation.lists.preferences import read_preferences
from engine.export.serving import fields_of
from engine.export.source import Source

if TYPE_CHECKING:
    from engine.vectors.index import VectorIndex

Rows = Iterable[Mapping[str, Any]]
_BLOCK = 8192
_LABEL = ("chunk_id", "path", "start", "end", "content_hash")


def write_chunks(source: Source, folder: Path) -> None:
    """`chunks.jsonl`: every chunk with its document's path, title and place."""
    documents = {document.id: document for document in source.store.documents()}
    rows = (
        {**fields_of(one, documents[one.document_id]), "tokens": one.tokens}
        for one in source.store.each_chunk()
    )
    _write_lines(folder / "chunks.jsonl", rows)


def write_vectors(source: Source, folder: Path) -> None:
    """`vectors/vectors.npy`, float32 (n, d), unit norm; line i of `vectors/ids.jsonl` says what
    row i belongs to.

    In order of id; chunks whose documents are gone are left out. Where semantic search has vectors
    of its own, they are in `semantic-vectors/` in the same way.
    """
    _write_vectors(source, source.index, folder / "vectors")
    if source.semantic_index is not None:
        _write_vectors(source, source.semantic_index, folder / "semantic-vectors")


def _write_vectors(source: Source, index: VectorIndex, target: Path) -> None:
    import numpy as np

    target.mkdir()
    keys, stored = index.stored()
    owners = source.store.owners_of(keys.tolist())
    documents = {document.id: document for document in source.store.documents()}
    places = [row for row, key in enumerate(keys.tolist()) if owners.get(key) in documents]
    with (
        (target / "vectors.npy").open("wb") as rows,
        (target / "ids.jsonl").open("w", encoding="utf-8") as lines,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(places), index.width)}
        np.lib.format.write_array_header_1_0(rows, header)
        for first in range(0, len(places), _BLOCK):
            block = places[first : first + _BLOCK]
            rows.write(
                index.form.vectors(stored[block]).astype("<f4").tobytes()
            )  # a map would crash on a full disk
            chunks = source.store.chunks_by_id(keys[block].tolist())
            for key in keys[block].tolist():
                fields = fields_of(chunks[key], documents[owners[key]])
                lines.write(
                    json.dumps({name: fields[name] for name in _LABEL}, ensure_ascii=False) + "\n"
                )


def write_beir(source: Source, folder: Path) -> None:
    """`beir/chunks`: queries and judgments whose answers are chunks; `beir/documents`: those
    whose answers are documents.

    The splits of qrels: train, validation and heldout of the generated queries, test for the judged
    ones. `beir/preferences.jsonl`: which of two lists was better for a query.
    """
    chunks = source.store.chunks()
    documents = source.store.documents(with_text=True)
    judged = relevant_chunks(source.store.judged(), chunks, documents)
    titles = {document.id: document.title for document in documents}
    names = {chunk.id: str(chunk.id) for chunk in chunks}
    of_chunks = [("test", one) for one in judged if one.level == "chunk" and one.usable]
    for query in source.store.queries():
        if query.chunk_id in names:
            of_chunks.append((query.split, from_queries([query], {})[0]))
    rows = (
        {"_id": names[one.id], "title": titles[one.document_id], "text": one.text} for one in chunks
    )
    _write_set(folder / "beir" / "chunks", rows, of_chunks, names)
    if of_documents := [("test", one) for one in judged if one.level == "document" and one.usable]:
        own = _unique({one.id: one.external_id or one.path for one in documents})
        entries = ({"_id": own[one.id], "title": one.title, "text": one.text} for one in documents)
        _write_set(folder / "beir" / "documents", entries, of_documents, own)
    if preferences := read_preferences(source.project):
        _write_lines(folder / "beir" / "preferences.jsonl", map(asdict, preferences))


def _write_set(
    folder: Path, corpus: Rows, judged: list[tuple[str, Judgment]], names: Mapping[int, str]
) -> None:
    (folder / "qrels").mkdir(parents=True)
    keys = _unique({place: one.key for place, (_, one) in enumerate(judged)})
    _write_lines(folder / "corpus.jsonl", corpus)
    _write_lines(
        folder / "queries.jsonl",
        ({"_id": keys[place], "text": one.text} for place, (_, one) in enumerate(judged)),
    )
    for split in sorted({split for split, _ in judged}):
        with (folder / "qrels" / f"{split}.tsv").open("w", encoding="utf-8") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            for place, (own, one) in enumerate(judged):
                if own == split:
                    file.writelines(
                        f"{keys[place]}\t{names[key]}\t{grade}\n"
                        for key, grade in one.grades.items()
                    )


def _unique(names: Mapping[int, str]) -> dict[int, str]:
    """Names fit for a table of tab-separated values, each one different."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for key, name in names.items():
        plain = re.sub(r"\s+", " ", name).strip() or str(key)
        while plain in taken:
            plain = f"{plain} ({key})"
        found[key] = plain
        taken.add(plain)
    return found


def _write_lines(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
