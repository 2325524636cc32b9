"""Chunks that are longer than what the encoder reads are reported: what lies beyond is found by BM25 alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pipeline import ingest_here

from engine.project.folder import ProjectFolder


@pytest.mark.parametrize(
    ("chunk", "longest", "read", "todo"),
    [
        (200, 256, "first 128 of a text (the most that its model takes)", "lower corpus.chunk_tokens"),
        (96, 64, "first 64 of a text (encoder.max_tokens)", "raise encoder.max_tokens"),
        (200, 64, "first 64 of a text (encoder.max_tokens)", "raise encoder.max_tokens"),
        (128, 256, "", ""),
    ],
)
def test_chunks_that_the_encoder_cuts(
    tmp_path: Path, tiny_model: Path, chunk: int, longest: int, read: str, todo: str
) -> None:
    """The tiny model takes 128 tokens."""
    settings = {
        "corpus": {"paths": ["documents"], "chunk_tokens": chunk},
        "encoder": {"model": str(tiny_model), "max_tokens": longest},
    }
    project = ProjectFolder.create(tmp_path / "project", settings)
    (project.path / "documents").mkdir()
    (project.path / "documents" / "a.txt").write_text("The contract of the party was on the market. " * 3)
    _, warned = ingest_here(project.path)
    reported = [text for text in warned if "corpus.chunk_tokens" in text]
    assert len(reported) == bool(read)
    for text in reported:
        assert f"Chunks may have {chunk} tokens" in text
        assert read in text
        assert text.endswith(f"To mend that, {todo}.")
