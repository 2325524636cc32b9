"""Chunks that are longer than what the encoder reads are reported: what lies beyond is found by
BM25 alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pipeline import ingest_here
from fixtures.shown_numbers import numbers

from engine.project.folder import ProjectFolder


@pytest.mark.parametrize(
    ("chunk", "longest", "read", "setting"),
    [
        (200, 256, 128, "corpus.chunk_tokens"),
        (96, 64, 64, "encoder.max_tokens"),
        (200, 64, 64, "encoder.max_tokens"),
        (128, 256, None, ""),
    ],
)
def test_chunks_that_the_encoder_cuts(
    tmp_path: Path, tiny_model: Path, chunk: int, longest: int, read: int | None, setting: str
) -> None:
    """The tiny model takes 128 tokens. The warning ends with the setting to change."""
    settings = {
        "corpus": {"paths": ["documents"], "chunk_tokens": chunk},
        "encoder": {"model": str(tiny_model), "max_tokens": longest},
    }
    project = ProjectFolder.create(tmp_path / "project", settings)
    (project.path / "documents").mkdir()
    (project.path / "documents" / "a.txt").write_text(
        "The contract of the party was on the market. " * 3
    )
    _, warned = ingest_here(project.path)
    reported = [text for text in warned if "corpus.chunk_tokens" in text]
    assert [(numbers(text), text.split()[-1]) for text in reported] == (
        [([chunk, read], f"{setting}.")] if read else []
    )
