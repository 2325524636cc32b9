"""One file of cached vectors, written atomically and checked when it is opened.

Layout: 8 bytes magic, rows and width as little-endian uint32, the hashes (n × 32 bytes), the
vectors (n × d float16, little-endian), and the sha256 of all that.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from engine.core.disk import disk_errors, replace_file

_MAGIC = b"BMVEC\x00\x01\n"
_HEAD = struct.Struct("<8sII")
HASH_BYTES = 32


class Shard(NamedTuple):
    """What is read of a shard when it is opened: its hashes (n,) S32, and its vectors' width d."""

    hashes: np.ndarray
    width: int


def write_shard(
    path: Path,
    hashes: np.ndarray,
    vectors: np.ndarray,
) -> None:
    """Write hashes (n,) S32 and vectors (n, d) float16 atomically.

    Raises ResourceError if the disk is full.
    """
    head = _HEAD.pack(_MAGIC, *vectors.shape)
    parts = [
        head,
        hashes.tobytes(),
        vectors.astype("<f2", copy=False).tobytes(),
    ]
    digest = hashlib.sha256()
    temporary = path.with_name(f".{path.stem}-{os.getpid()}.part")
    with disk_errors(f"{path} could not be written."):
        # Another process may have cleared the cache of queries.
        path.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        with replace_file(path, temporary) as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())


def read_shard(path: Path) -> Shard | None:
    """Return the hashes and the width of a shard, or None if it is torn or corrupt."""
    try:
        content = path.read_bytes()
        magic, rows, width = _HEAD.unpack_from(content)
    except (OSError, struct.error):
        return None
    # A number of a vector has 2 bytes. The digest at the end is as long as a hash.
    size = _HEAD.size + rows * (HASH_BYTES + 2 * width) + HASH_BYTES
    if magic != _MAGIC or len(content) != size:
        return None
    digest = hashlib.sha256(memoryview(content)[:-HASH_BYTES]).digest()
    if digest != content[-HASH_BYTES:]:
        return None
    hashes = np.frombuffer(content, dtype="S32", count=rows, offset=_HEAD.size).copy()
    return Shard(hashes, width)


def read_row_count(path: Path) -> int:
    """Return the number of vectors that a shard's head names, 0 without one; nothing is checked."""
    try:
        with path.open("rb") as file:
            magic, rows, _width = _HEAD.unpack(file.read(_HEAD.size))
    except (OSError, struct.error):
        return 0
    return int(rows) if magic == _MAGIC else 0


def map_vectors(
    path: Path,
    rows: int,
    width: int,
) -> np.ndarray:
    """Return the vectors (n, d) float16 of a checked shard as a memory map."""
    return np.memmap(
        path, dtype="<f2", mode="r", offset=_HEAD.size + rows * HASH_BYTES, shape=(rows, width)
    )
