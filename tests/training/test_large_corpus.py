"""What training and the filter of its queries look at in a corpus that is too large for the
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partialmethod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.pipeline import generate_here
from fixtures.ranked_project import built, project
from fixtures.records import build_chunk

from engine.core.records import Chunk, Query
from engine.encoders import for_project
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store import chunks
from engine.project.store.chunks import sample_indices
from engine.project.store.store import Store
from engine.queries import stage
from engine.queries.filters.consistency import base_ranks
from engine.training.data import TrainingData
from engine.training.dataset import training_data
from engine.training.recipe import resolve_config

__all__ = ["built", "project"]
FEW = 5


def data_of(project: ProjectFolder, **changes: Any) -> TrainingData:
    with closing(project.store()) as store:
        context = StageContext(
            project, project.settings(), store, "train", "", "", [].append, lambda: False
        )
        return training_data(
            context, replace(resolve_config(context), objective="infonce", **changes)
        )


def test_training_reads_some_chunks_of_many_and_those_that_its_queries_need(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: dict[str, Any] = {
        "negatives_per_query": 1,
        "negative_ranks": (3, 4),
        "adapter_scope": "both",
        "shared_chunks": 0,
    }
    project.change_settings({"training.query_share": 0.1})
    whole = data_of(project, **recipe)
    read = set[int]()
    read_whole = Store.read_whole

    def note_read(store: Store, some: Sequence[Chunk]) -> list[Chunk]:
        read.update(chunk.id for chunk in some)
        return read_whole(store, some)

    monkeypatch.setattr(chunks, "IN_MEMORY", FEW)
    monkeypatch.setattr(
        Store,
        "chunks",
        partialmethod(Store.chunks, in_memory=FEW),
    )
    monkeypatch.setattr(Store, "read_whole", note_read)
    monkeypatch.setattr(
        Store,
        "chunk",
        lambda *_: pytest.fail("a chunk was read alone"),
    )
    monkeypatch.setattr(
        Store,
        "each_chunk",
        lambda _store: pytest.fail("all chunks were read"),
    )
    found = data_of(project, **recipe)

    needed = {
        *whole.positives.tolist(),
        *whole.ranked_ids[:, 3:4].ravel().tolist(),
        *whole.heldout_positives.tolist(),
    } - {-1}
    assert len(needed) < len(found.chunks) <= len(needed) + FEW < len(whole.chunks)
    assert len(read) == len(found.chunks)
    assert (found.queries, found.heldout_queries) == (whole.queries, whole.heldout_queries)

    def texts(data: TrainingData, places: Any) -> list[str]:
        return [data.chunks[place] if place >= 0 else "" for place in np.ravel(places)]

    assert texts(found, found.positives) == texts(whole, whole.positives)
    assert texts(found, found.ranked_ids[:, 3:4]) == texts(whole, whole.ranked_ids[:, 3:4])
    for mine, all_ in zip(
        texts(found, found.ranked_ids), texts(whole, whole.ranked_ids), strict=True
    ):
        assert mine in ("", all_)
    np.testing.assert_array_equal(found.ranked_scores, whole.ranked_scores)


def test_extractive_queries_are_written_of_some_chunks_of_many(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "IN_MEMORY", FEW)
    monkeypatch.setattr(stage, "IN_MEMORY", FEW)
    monkeypatch.setattr(
        Store,
        "chunks",
        partialmethod(Store.chunks, in_memory=FEW),
    )
    monkeypatch.setattr(
        Store,
        "each_chunk",
        lambda _store: pytest.fail("all chunks were read"),
    )
    generate_here(project, forced=True)
    with closing(project.store()) as store:
        keys = [key for key, _, _ in store.chunk_keys()]
        sample = {keys[position] for position in sample_indices(len(keys), 0).tolist()}
        written = {query.chunk_id for query in store.queries()}
    assert len(sample) == FEW < len(keys)
    assert written
    assert written <= sample


@pytest.mark.parametrize("compared", [400, 100])
def test_the_rank_by_meaning_is_estimated_by_some_chunks_of_many(
    compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunk n has angle n / 400 to all queries, so that its rank is n + 1."""
    passages = [build_chunk(str(number), number + 1, ordinal=number) for number in range(400)]
    asked = list[int]()
    wanted = (0, 40, 200, 399)

    def vectors(
        _context: object,
        _encoder: object,
        some: Sequence[Chunk],
        _what: str,
    ) -> Any:
        asked.append(len(some))
        angles = np.array([chunk.ordinal / 400 for chunk in some])
        return np.column_stack([np.cos(angles), np.sin(angles)])

    encoder = SimpleNamespace(encode_queries=lambda texts, _: np.array([[1.0, 0.0]] * len(texts)))
    monkeypatch.setattr(
        for_project,
        "load_encoder",
        lambda _: encoder,
    )
    monkeypatch.setattr(for_project, "chunk_vectors", vectors)
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(training=SimpleNamespace(seed=0)), check_stop=lambda: None
    )
    ranks = base_ranks(
        context,
        [Query("q", "question", n + 1, 1, "") for n in wanted],
        passages,
        400,
        sample_size=compared,
    )
    if compared == 400:
        assert ranks.tolist() == [1, 41, 201, 400]
    else:
        assert ranks[0] == 1
        np.testing.assert_allclose(
            ranks,
            [1, 41, 201, 400],
            atol=60,
        )
    assert compared <= asked[0] <= min(400, compared + len(wanted))
