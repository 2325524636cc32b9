"""Scores of (query, chunk) pairs on disk: one file that only grows, in blocks that are whole or not there."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.errors import ResourceError

KEY_BYTES = 16
_RECORD = np.dtype([("key", f"V{KEY_BYTES}"), ("score", "<f4")])
_HEAD = struct.Struct("<II")  # records of the block, and their CRC-32


class ScoreCache:
    """Scores by 16-byte key, in memory and in the file `path` (None: in memory only).

    Opening cuts the file off behind its last whole block: what a crash tore is made again.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._scores: dict[bytes, float] = {}
        if path is not None and path.is_file():
            self._read(path)

    def __contains__(self, key: bytes) -> bool:
        return key in self._scores

    def __getitem__(self, key: bytes) -> float:
        return self._scores[key]

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, keys: Sequence[bytes], scores: npt.NDArray[np.float32]) -> None:
        """Keep the scores (n,) of n keys, on disk before this returns. Raises ResourceError when the disk refuses."""
        records = np.empty(len(keys), dtype=_RECORD)
        records["key"] = np.frombuffer(b"".join(keys), dtype=f"V{KEY_BYTES}")
        records["score"] = scores
        self._take(records)
        if self._path is None:
            return
        payload = records.tobytes()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(_HEAD.pack(len(keys), zlib.crc32(payload)) + payload)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ResourceError(
                f"The cross-encoder's scores cannot be kept in {self._path}.", f"{error}.",
                "Free disk space and run again; training resumes.", code="write-failed", command="run",
            ) from error  # fmt: skip

    def _read(self, path: Path) -> None:
        content, start = path.read_bytes(), 0
        while start + _HEAD.size <= len(content):
            count, checksum = _HEAD.unpack_from(content, start)
            payload = content[start + _HEAD.size : start + _HEAD.size + count * _RECORD.itemsize]
            if len(payload) != count * _RECORD.itemsize or zlib.crc32(payload) != checksum:
                break
            self._take(np.frombuffer(payload, dtype=_RECORD))
            start += _HEAD.size + len(payload)
        if start < len(content):
            os.truncate(path, start)

    def _take(self, records: npt.NDArray[np.void]) -> None:
        keys = (key.tobytes() for key in records["key"])
        self._scores.update(zip(keys, records["score"].tolist(), strict=True))
