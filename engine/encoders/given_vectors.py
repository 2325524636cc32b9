"""Vectors of chunks in a file, .npy or .safetensors, each named by its chunk's content hash. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError
from engine.core.unit_vectors import unit_rows
from engine.encoders.weights_file import file_sha256

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TENSOR = "vectors"
_SAME = 1e-3  # texts that were embedded twice differ by rounding
_BLOCK = 16_384


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """`rows` (n, d), maybe mapped from disk and of any length; `places`: content hash → row."""

    rows: NDArray[np.floating]
    places: dict[str, int]

    @property
    def dimension(self) -> int:
        """Width d."""
        return int(self.rows.shape[1])

    def find(self, hashes: Sequence[str]) -> NDArray[np.int64]:
        """The row of each hash (n,), −1 for one without a vector."""
        import numpy as np

        return np.array([self.places.get(one, -1) for one in hashes], np.int64)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Unit vectors (n, d) of rows."""
        return unit_rows(self.rows[places])


def vectors_digest(path: Path) -> str:
    """Names the file's vectors and their ids by content. Raises ModelError."""
    try:
        files = [path, *([ids] if (ids := _ids_file(path)) else [])]
        return hashlib.sha256("".join(map(file_sha256, files)).encode()).hexdigest()
    except (OSError, ValueError) as error:
        raise _unusable(path, f"{error}.", code="vectors-unreadable") from None


def read_vectors(path: Path) -> GivenVectors:
    """The vectors, checked. Raises ModelError."""
    import numpy as np
    from safetensors import SafetensorError

    try:
        rows, ids = (_safetensors if path.suffix.lower() == ".safetensors" else _npy)(path)
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        OverflowError,
        RecursionError,
        SafetensorError,
    ) as error:
        raise _unusable(path, f"{error}.", code="vectors-unreadable") from None
    if rows.dtype.kind != "f" or rows.ndim != 2 or 0 in rows.shape:
        why = f"It holds {rows.dtype} of shape {rows.shape}, not rows of floating-point numbers."
        raise _unusable(path, why, code="vectors-invalid")
    if ids is None:
        why = "There is neither {} nor {} beside it.".format(*_names(path))
        raise _unusable(path, why, code="vectors-ids-missing")
    if len(ids) != len(rows):
        raise _unusable(
            path, f"It holds {len(rows)} vectors, and there are {len(ids)} ids.", code="vectors-ids-invalid"
        )
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        if not (np.isfinite(block).all() and block.any(axis=1).all()):
            raise _unusable(
                path, "Some vectors hold numbers that are not finite, or only zeros.", code="vectors-not-finite"
            )
    places: dict[str, int] = {}
    for row, name in enumerate(ids):
        first = places.setdefault(name, row)
        if first != row and np.abs(np.subtract(*unit_rows(rows[[first, row]]))).max() > _SAME:
            raise _unusable(path, f"The id {name} has two different vectors.", code="vectors-ids-invalid")
    return GivenVectors(rows, places)


def _npy(path: Path) -> tuple[NDArray[np.floating], list[str] | None]:
    import numpy as np

    return np.lib.format.open_memmap(path, mode="r"), _read_ids(path)


def _safetensors(path: Path) -> tuple[NDArray[np.floating], list[str] | None]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        ids = (file.metadata() or {}).get("ids")
        return file.get_tensor(TENSOR), _parsed(ids) if ids is not None else _read_ids(path)


def _names(path: Path) -> tuple[str, str]:
    return f"{path.stem}.ids.txt", "ids.jsonl"


def _ids_file(path: Path) -> Path | None:
    """The file of ids beside it, where there is one: its own, or the one that an export writes."""
    return next((found for name in _names(path) if (found := path.with_name(name)).is_file()), None)


def _read_ids(path: Path) -> list[str] | None:
    found = _ids_file(path)
    return _parsed(found.read_text(encoding="utf-8-sig")) if found else None


def _parsed(text: str) -> list[str]:
    """One id a line, or a line of JSON with it as `content_hash`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [str(json.loads(line)["content_hash"]) if line.startswith("{") else line.lower() for line in lines]


def _unusable(path: Path, why: str, code: str) -> ModelError:
    return ModelError(
        f"The vectors in {path} cannot be used.", why,
        "Set encoder.vectors to a .npy file with its ids beside it, or to a .safetensors file with both.", code=code,
    )  # fmt: skip
