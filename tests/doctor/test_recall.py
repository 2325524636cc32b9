from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures.vector_indexes import build

import engine.vectors.index as module
from engine.doctor.findings import measure_recall
from engine.vectors.index import VectorIndex


def test_recall_is_the_share_of_the_nearest_that_search_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, ids, _ = build(tmp_path / "index", 60)
    assert measure_recall(index) == 1
    half = ids[ids % 2 == ids[0] % 2]
    exact = VectorIndex.search_exactly

    def searched(self: VectorIndex, vector: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        found, scores = exact(self, vector, k)
        kept = np.isin(found, half)
        return found[kept], scores[kept]

    monkeypatch.setattr(
        module.VectorIndex,
        "search",
        searched,
    )
    assert 0.3 < measure_recall(index) < 0.7
