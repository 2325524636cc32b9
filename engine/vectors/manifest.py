"""The manifest of a vector index: its form and size, and the checksums of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from engine.core.disk import remembered_sha256
from engine.core.errors import DamagedError
from engine.vectors.forms import DTYPES, index_form

FORMAT_VERSION = 2
GONE = "gone.npy"
"""File with the places of the deleted rows."""
_MALFORMED = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading a malformed manifest, or the files that it names, may raise."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, and check its values and the sizes and checksums of the files.

    Raises DamagedError.
    """
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        version = manifest["version"]
        if version != FORMAT_VERSION:
            why = f"its format is version {version}, that of another version of the program"
            raise damage_error(folder, why)
        numbers = [manifest[key] for key in ("count", "dimension", "removed")]
        are_possible = all(type(number) is int and 0 <= number < 2**31 for number in numbers)
        # The form adds numbers to each vector, which has at least one of its own.
        if not are_possible or manifest["dimension"] <= index_form(manifest).added:
            raise ValueError("its manifest holds impossible values")
        _check_files(folder, manifest)
    except _MALFORMED as error:
        raise damage_error(folder, f"{type(error).__name__}: {error}") from None
    return cast(dict[str, Any], manifest)


def _check_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Check the size and the checksum of each file that the manifest names.

    Raises ValueError, KeyError, TypeError or OSError.
    """
    import numpy as np

    from engine.vectors.graph import graph_of
    from engine.vectors.part import part_size

    width = manifest["dimension"]
    dtype = np.dtype(DTYPES[manifest["dtype"]])
    for name, (rows, digest) in manifest["parts"].items():
        is_number = type(rows) is int and rows > 0
        if not is_number or (folder / name).stat().st_size != part_size(rows, width, dtype):
            raise ValueError(f"{name} is of another size")
        if remembered_sha256(folder / name) != digest:
            raise ValueError(f"the checksum of {name} does not match")
    for name, digest in manifest["graphs"].items():
        if name not in manifest["parts"] or remembered_sha256(graph_of(folder / name)) != digest:
            raise ValueError(f"the checksum of the graph of {name} does not match")
    if remembered_sha256(folder / GONE) != manifest["gone"]:
        raise ValueError(f"the checksum of {GONE} does not match")


def damage_error(folder: Path, why: str) -> DamagedError:
    """Build the error for an index that cannot be trusted."""
    return DamagedError(
        f"The vector index in {folder} is damaged.",
        f"{why}.",
        "Run 'engine embed --force' to build it again; keyword search still works.",
        code="index-damaged",
        stage="embed",
        command="embed --force",
    )
