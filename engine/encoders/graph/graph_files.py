"""The files of a query encoder's graph in a folder: their names and their integrity."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.disk import json_sha256, remembered_sha256

FOLDER = "query-encoder"
"""Sub-folder of a vector index for the graph, or for a pointer to a shared one."""
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
FACTS = "encoder.json"
FILES = (MODEL, TOKENIZER, FACTS)
"""The facts come last: if they exist, the other files are complete."""


def read_facts(folder: Path) -> dict[str, Any] | None:
    """Read the facts of the graph in a folder, or None if a file is missing or damaged."""
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        is_sound = facts.pop("sha256") == _digest(folder, facts)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
    return facts if is_sound else None


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Write the facts of a graph whose other files are written, with a digest of all files."""
    text = json.dumps({**facts, "sha256": _digest(folder, facts)})
    (folder / FACTS).write_text(text, encoding="utf-8")


def copy_graph(
    source: Path,
    target: Path,
    *,
    link: bool,
) -> None:
    """Copy the files of a graph from folder to folder.

    With `link`, hard links are used if the file system has them, since a graph takes 90 MB. A hard
    link has the permissions of the original, so what a group should read must be copied.
    """
    for name in FILES:
        (target / name).unlink(missing_ok=True)
        if link:
            with suppress(OSError):
                os.link(source / name, target / name)
                continue
        shutil.copyfile(source / name, target / name)
        (target / name).chmod(0o600)


def remove_graph(folder: Path) -> None:
    """Remove the files of a graph, facts first."""
    for name in reversed(FILES):
        (folder / name).unlink(missing_ok=True)


def _digest(folder: Path, facts: dict[str, Any]) -> str:
    """Return a digest of the facts, and of the graph and tokenizer in a folder."""
    return json_sha256(
        [facts, remembered_sha256(folder / MODEL), remembered_sha256(folder / TOKENIZER)]
    )
