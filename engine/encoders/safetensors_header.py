"""The header of a safetensors file, checked against the size of the file, so that torn copies are found early.

Layout (https://github.com/huggingface/safetensors#format): 8 bytes little-endian header length N, N bytes of JSON
`{name: {dtype, shape, data_offsets}}`, then the tensors' bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError

_MAX_HEADER = 100_000_000
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
    "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_digests: dict[tuple[str, int, int], str] = {}


def tensor_names(path: Path) -> frozenset[str]:
    """The names of the tensors in a safetensors file. Raises ModelError like `tensor_shapes`."""
    return frozenset(tensor_shapes(path))


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in a safetensors file whose header fits its size, by name.

    Raises ModelError when the file is truncated, has trailing bytes, or its header is not valid.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(_MAX_HEADER, size - 8):
                raise ValueError(f"the file has {size} bytes, its header alone claims {length + 8}")
            header = json.loads(file.read(length))
        return _check(header, size - 8 - length)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"The weights file {path} is damaged or incomplete.", f"Its safetensors header does not hold: {error}.",
            "Copy the model folder again, completely, and compare the checksums with the source.", code="model-damaged",
        ) from error  # fmt: skip


def _check(header: Any, data_size: int) -> dict[str, tuple[int, ...]]:
    if not isinstance(header, dict):
        raise TypeError("the header is not a JSON object")
    spans = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        bits = math.prod(int(side) for side in entry["shape"]) * _BITS[entry["dtype"]]
        if not 0 <= begin <= end or (end - begin) * 8 != bits:
            raise ValueError(f"tensor {name} has offsets {begin}–{end} for {bits // 8} bytes")
        spans.append((begin, end))
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise ValueError(f"bytes {position}–{begin} belong to no tensor or to two")
        position = end
    if position != data_size:
        raise ValueError(f"the tensors need {position} bytes, the file holds {data_size}")
    return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file; remembered in this process by path, size and modification time."""
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    if key not in _digests:
        with path.open("rb") as file:
            _digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[key]
