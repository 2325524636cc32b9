"""Text files of an export are the same on all systems."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.records import build_chunks, build_document, store_document

from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import CorpusInfo
from engine.project.store.artifacts import Artifact

open_file = Path.open


def open_as_windows(
    path: Path,
    mode: str = "r",
    *rest: Any,
    **named: Any,
) -> Any:
    """Open a file whose lines end with `\\r\\n` if the caller leaves that to the system."""
    if "w" in mode and "b" not in mode and named.get("newline") is None:
        named["newline"] = "\r\n"
    return open_file(path, mode, **named)


def test_lines_end_as_on_linux(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(project.store()) as store:
        store_document(
            store,
            build_document(),
            build_chunks(["The roof leaks.", "Call Ada."]),
        )
        store.put_artifact(Artifact(CorpusInfo(), "c", ""))
    monkeypatch.setattr(Path, "open", open_as_windows)
    made = export_project(
        project,
        tmp_path / "taken",
        ["chunks"],
    )
    contents = [path.read_bytes() for path in made.folder.rglob("*") if path.is_file()]
    assert len(contents) == made.files == 3
    assert sum(map(len, contents)) == made.bytes
    assert not [content for content in contents if b"\r" in content]
