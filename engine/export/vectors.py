"""The chunks' vectors with what they belong to: .npy with .jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.export.source import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 8192


def write_vectors(source: Source, folder: Path) -> None:
    """`vectors/vectors.npy`, float32 (n, d), unit norm; line i of `vectors/ids.jsonl` says what row i belongs to."""
    import numpy as np

    target = folder / "vectors"
    target.mkdir()
    keys, _ = source.index.stored()
    known = set(source.store.chunks_by_id(keys.tolist()))
    shape = (sum(key in known for key in keys.tolist()), source.index.width)
    with (target / "vectors.npy").open("wb") as rows, (target / "ids.jsonl").open("w", encoding="utf-8") as lines:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(rows, header)
        for labels, vectors in _blocks(source):
            rows.write(vectors.astype("<f4").tobytes())  # a memory map would crash on a full disk
            lines.writelines(json.dumps(label, ensure_ascii=False) + "\n" for label in labels)


def _blocks(source: Source) -> Iterator[tuple[list[dict[str, Any]], NDArray[np.float32]]]:
    """Labels and unit vectors (m, d) of the chunks in the index whose documents are still there, in order of id."""
    keys, stored = source.index.stored()
    paths = {document.id: document.path for document in source.store.documents()}
    for first in range(0, len(keys), _BLOCK):
        chunks = source.store.chunks_by_id(keys[first : first + _BLOCK].tolist())
        places = [row for row in range(first, min(first + _BLOCK, len(keys))) if int(keys[row]) in chunks]
        found = [chunks[int(keys[row])] for row in places]
        labels: list[dict[str, Any]] = [
            {"chunk_id": chunk.id, "path": paths.get(chunk.document_id, ""), "start": chunk.start, "end": chunk.end,
             "content_hash": chunk.content_hash}
            for chunk in found
        ]  # fmt: skip
        yield labels, source.index.form.vectors(stored[places])
