"""The chunks' vectors with what they belong to: .npy with .jsonl."""

from __future__ import annotations

import json
from pathlib import Path

from engine.export.serving import fields_of
from engine.export.source import Source

_BLOCK = 8192
_LABEL = ("chunk_id", "path", "start", "end", "content_hash")


def write_vectors(source: Source, folder: Path) -> None:
    """`vectors/vectors.npy`, float32 (n, d), unit norm; line i of `vectors/ids.jsonl` says what row i belongs to.

    In order of id; chunks whose documents are gone are left out.
    """
    import numpy as np

    target = folder / "vectors"
    target.mkdir()
    keys, stored = source.index.stored()
    owners = source.store.owners_of(keys.tolist())
    documents = {document.id: document for document in source.store.documents()}
    places = [row for row, key in enumerate(keys.tolist()) if owners.get(key) in documents]
    with (target / "vectors.npy").open("wb") as rows, (target / "ids.jsonl").open("w", encoding="utf-8") as lines:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(places), source.index.width)}
        np.lib.format.write_array_header_1_0(rows, header)
        for first in range(0, len(places), _BLOCK):
            block = places[first : first + _BLOCK]
            rows.write(
                source.index.form.vectors(stored[block]).astype("<f4").tobytes()
            )  # a map would crash on a full disk
            chunks = source.store.chunks_by_id(keys[block].tolist())
            for key in keys[block].tolist():
                fields = fields_of(chunks[key], documents[owners[key]])
                lines.write(json.dumps({name: fields[name] for name in _LABEL}, ensure_ascii=False) + "\n")
