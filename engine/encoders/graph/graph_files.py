"""The files of a query encoder's graph in one folder: their names, and whether they are what was
written.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.disk import json_sha256, remembered_sha256

FOLDER = "query-encoder"
"""The folder of the graph, or of what stands for it, in that of a vector index."""
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
FACTS = "encoder.json"
FILES = (MODEL, TOKENIZER, FACTS)
"""The facts come last: where they are, the others are complete."""


def read_facts(folder: Path) -> dict[str, Any] | None:
    """Read what is noted of the graph in a folder; None where any of its files is missing or
    damaged.
    """
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        is_sound = facts.pop("sha256") == _digest(folder, facts)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
    return facts if is_sound else None


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Note facts of a graph whose other files are written, with the digest of all."""
    text = json.dumps({**facts, "sha256": _digest(folder, facts)})
    (folder / FACTS).write_text(text, encoding="utf-8")


def copy_graph(source: Path, target: Path, *, link: bool) -> None:
    """Copy the files of a graph from folder to folder.

    With `link`, under a second name where the file system has those.

    A second name has the permissions of the first: what a group is to read is copied.
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
    return json_sha256(
        [facts, remembered_sha256(folder / MODEL), remembered_sha256(folder / TOKENIZER)]
    )
