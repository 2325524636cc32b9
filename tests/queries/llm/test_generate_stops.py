"""The stage `generate` without a language model: it can be paused and cancelled wherever it is
at work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engine.core.errors import CancelledError
from engine.encoders import for_project as embedding
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.queries import stage


class InBatches:
    """An encoder that takes two texts at a time; no text is near to another."""

    def __init__(self) -> None:
        self.batches = 0

    def encode_queries(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> Any:
        for count in range(2, len(texts) + 2, 2):
            self.batches += 1
            if progress is not None:
                progress(min(count, len(texts)))
        return np.zeros((len(texts), 3), np.float32)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> InBatches:
    fake_encoder = InBatches()
    monkeypatch.setattr(
        embedding,
        "load_encoder",
        lambda *_: fake_encoder,
    )
    monkeypatch.setattr(
        embedding,
        "chunk_vectors",
        lambda _c, _e, chunks, _what: np.zeros((len(chunks), 3), np.float32),
    )
    # nothing is found by BM25, so that the encoder is asked about every query
    monkeypatch.setattr(
        stage, "bm25_ranks", lambda _index, queries, *_: np.zeros(len(queries), np.int64)
    )
    return fake_encoder


def generate(project: ProjectFolder, should_stop: Callable[[], bool]) -> None:
    store = project.store()
    try:
        log: list[object] = []
        stage.STAGE.run(
            StageContext(
                project, project.settings(), store, "generate", "f", "r", log.append, should_stop
            )
        )
    finally:
        store.close()


def test_a_stop_is_heard_between_two_batches_of_queries(
    asked_project: Callable[..., ProjectFolder], encoder: InBatches
) -> None:
    project = asked_project(consistency_top=1)
    with pytest.raises(CancelledError):
        generate(project, lambda: encoder.batches == 2)
    assert encoder.batches == 2


def test_a_stop_is_noticed_at_every_point(
    asked_project: Callable[..., ProjectFolder], encoder: InBatches
) -> None:
    project = asked_project(consistency_top=1)
    calls = 0

    def count(_stop_at: int) -> bool:
        nonlocal calls
        calls += 1
        return calls == _stop_at

    generate(project, lambda: count(0))
    places = calls
    assert places > 6 + 6 + encoder.batches  # each chunk twice, and each batch
    for place in range(1, places + 1, 3):
        calls = 0
        with pytest.raises(CancelledError):
            generate(project, lambda place=place: count(place))  # type: ignore[misc]
        assert calls == place
