"""The chunks' vectors with what they belong to: .npy with .jsonl, and Parquet."""

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

    target = _folder(folder)
    keys, _ = source.index.stored()
    known = set(source.store.chunks_by_id(keys.tolist()))
    shape = (sum(key in known for key in keys.tolist()), source.index.width)
    with (target / "vectors.npy").open("wb") as rows, (target / "ids.jsonl").open("w", encoding="utf-8") as lines:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(rows, header)
        for labels, vectors in _blocks(source):
            rows.write(vectors.astype("<f4").tobytes())  # a memory map would crash on a full disk
            lines.writelines(json.dumps(label, ensure_ascii=False) + "\n" for label in labels)


def write_parquet(source: Source, folder: Path) -> None:
    """`vectors/vectors.parquet`: the columns of ids.jsonl, and `vector`."""
    import pyarrow
    from pyarrow import parquet

    types = {"chunk_id": "int64", "path": "string", "start": "int64", "end": "int64", "content_hash": "string"}
    width = source.index.width
    fields = [pyarrow.field(name, getattr(pyarrow, kind)()) for name, kind in types.items()]
    schema = pyarrow.schema([*fields, pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), width))])
    with parquet.ParquetWriter(str(_folder(folder) / "vectors.parquet"), schema) as file:
        for labels, vectors in _blocks(source):
            columns = [pyarrow.array([label[field.name] for label in labels], field.type) for field in fields]
            file.write_table(pyarrow.table([*columns, _lists(vectors)], schema=schema))


def _lists(vectors: NDArray[np.float32]) -> Any:
    """A column of vectors (n, d)."""
    import pyarrow

    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])


def _folder(folder: Path) -> Path:
    target = folder / "vectors"
    target.mkdir(exist_ok=True)
    return target


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
