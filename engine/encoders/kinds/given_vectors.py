"""Vectors of chunks in a .npy or .safetensors file, each identified by its chunk's content hash.

Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.disk import remembered_sha256
from engine.core.errors import ModelError, reason_of
from engine.core.similarity import unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Texts that were embedded twice differ by rounding.
_SAME = 1e-3
_BLOCK = 16_384
_FAULTS = (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError)
"""Exceptions that readers of such files raise."""


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """The vectors of a file.

    `rows` (n, d) may be mapped from disk and have any length; `places` maps a content hash to its
    row.
    """

    rows: NDArray[np.floating]
    places: dict[str, int]

    def find(self, hashes: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each hash (n,), −1 for hashes without a vector."""
        import numpy as np

        return np.array([self.places.get(one, -1) for one in hashes], np.int64)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return unit vectors (n, d) of rows."""
        return unit_rows(self.rows[places])


def vectors_digest(named: str) -> str:
    """Return the digest of a file's vectors and their ids. Raises ModelError."""
    try:
        path = Path(named).expanduser()
        return hashlib.sha256(
            "".join(map(remembered_sha256, [path, *_ids_beside(path)])).encode()
        ).hexdigest()
    except _FAULTS as error:
        raise _unusable(named, reason_of(error), code="vectors-unreadable") from None


def read_vectors(path: str) -> GivenVectors:
    """Read and check the vectors of a file. Raises ModelError."""
    import numpy as np
    from safetensors import SafetensorError

    try:
        rows, ids = _read(Path(path).expanduser())
    except (*_FAULTS, SafetensorError) as error:
        raise _unusable(path, reason_of(error), code="vectors-unreadable") from None
    if rows.dtype.kind != "f" or rows.ndim != 2 or 0 in rows.shape:
        why = f"It holds {rows.dtype} of shape {rows.shape}, not rows of floating-point numbers."
        raise _unusable(path, why, code="vectors-invalid")
    if len(ids) != len(rows):
        why = f"It holds {len(rows)} vectors, and there are {len(ids)} ids."
        raise _unusable(path, why, code="vectors-ids-invalid")
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        if not (np.isfinite(block).all() and block.any(axis=1).all()):
            why = "Some vectors hold numbers that are not finite, or only zeros."
            raise _unusable(path, why, code="vectors-not-finite")
    places: dict[str, int] = {}
    for row, name in enumerate(ids):
        first = places.setdefault(name, row)
        if first != row and np.abs(np.subtract(*unit_rows(rows[[first, row]]))).max() > _SAME:
            raise _unusable(
                path, f"The id {name} has two different vectors.", code="vectors-ids-invalid"
            )
    return GivenVectors(rows, places)


def _read(path: Path) -> tuple[NDArray[np.floating], list[str]]:
    """Read vectors and ids: one id a line, or one JSON object a line with `content_hash`."""
    import numpy as np
    from safetensors import safe_open

    text = None
    if path.suffix.lower() == ".safetensors":
        with safe_open(path, framework="numpy") as file:
            rows = file.get_tensor("vectors")
            text = (file.metadata() or {}).get("ids")
    else:
        rows = np.lib.format.open_memmap(path, mode="r")
    if text is None:
        if not (beside := _ids_beside(path)):
            why = f"There is neither {path.stem}.ids.txt nor ids.jsonl beside it."
            raise _unusable(path, why, code="vectors-ids-missing")
        text = beside[0].read_text(encoding="utf-8-sig")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return rows, [
        str(json.loads(line)["content_hash"]) if line.startswith("{") else line.lower()
        for line in lines
    ]


def _ids_beside(path: Path) -> list[Path]:
    """Find the file of ids: the vectors' own, or the one that an export writes."""
    return [
        found
        for name in (f"{path.stem}.ids.txt", "ids.jsonl")
        if (found := path.with_name(name)).is_file()
    ][:1]


def _unusable(path: Path | str, why: str, code: str) -> ModelError:
    return ModelError(
        f"The vectors in {path} cannot be used.",
        why,
        "Set encoder.vectors to a .npy file with its ids beside it, or to a .safetensors file with"
        " both.",
        code=code,
    )
