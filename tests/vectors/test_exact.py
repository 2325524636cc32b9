"""Cosines with every stored vector, and ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.vectors import exact
from engine.vectors.index import IndexSizes, VectorIndex

ROWS = np.array([[1, 0], [3, 4], [0, 0], [-2, 0], [0, 7]], np.float32)


@pytest.fixture(params=["numkong", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the fast library, and without it."""
    if request.param == "numpy":
        monkeypatch.setattr(exact, "numkong", None)
    elif exact.numkong is None:
        pytest.skip("numkong is not installed")
    return str(request.param)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_cosines_by_hand(way: str, dtype: Any) -> None:
    rows = ROWS.astype(dtype)
    cosines = exact.cosines([rows[:2], rows[2:2], rows[2:]], np.array([0.5, 0], np.float32))
    assert cosines.dtype == np.float32
    assert cosines.tolist() == pytest.approx([1, 0.6, 0, -1, 0], abs=1e-6)


def test_nothing_to_compare_with(way: str) -> None:
    assert exact.cosines([], np.ones(3, np.float32)).tolist() == []


def test_many_rows_and_a_mapped_file(way: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(9_001, 48)).astype(np.float16)
    rows.tofile(tmp_path / "rows")
    mapped = np.memmap(
        tmp_path / "rows",
        dtype="<f2",
        mode="r",
        shape=rows.shape,
    )
    query = np.random.default_rng(2).normal(size=48).astype(np.float32)
    wide = rows.astype(np.float64)
    expected = wide @ query / np.linalg.norm(wide, axis=1) / np.linalg.norm(query)
    assert np.abs(exact.cosines([mapped], query) - expected).max() < 1e-3


def test_equal_rows_have_equal_cosines_and_rank_by_id(way: str) -> None:
    row = np.random.default_rng(1).normal(size=(1, 384)).astype(np.float16)
    scores = exact.cosines(
        [np.repeat(row, 301, axis=0)], np.random.default_rng(2).normal(size=384).astype(np.float32)
    )
    assert np.ptp(scores) < 1e-6
    ids = np.arange(301)[::-1]
    assert exact.ranks(ids, np.zeros(301, np.float32), np.arange(301)).tolist() == list(
        range(301, 0, -1)
    )


def test_ranks_by_hand() -> None:
    ids = np.array([4, 9, 2, 7])
    scores = np.array([0.5, 0.9, 0.5, -1.0], np.float32)
    assert exact.ranks(ids, scores, np.arange(4)).tolist() == [3, 1, 2, 4]
    assert exact.ranks(ids, scores, np.array([3, 0])).tolist() == [4, 3]
    assert exact.ranks(ids, scores, np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize(("dtype", "error"), [("f32", 1e-6), ("f16", 1e-3), ("i8", 2e-2)])
def test_stored_vectors_are_those_of_the_index(
    tmp_path: Path,
    dtype: str,
    error: float,
) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 24)).astype(np.float32)
    vectors /= np.linalg.norm(
        vectors,
        axis=1,
        keepdims=True,
    )
    ids = np.random.default_rng(1).permutation(np.arange(5, 125, 3))
    VectorIndex.build(
        tmp_path,
        ids,
        vectors,
        dtype=dtype,
        sizes=IndexSizes(block=7),
    )
    keys, stored = VectorIndex.open(tmp_path).stored()
    assert keys.tolist() == sorted(ids.tolist())
    assert stored.dtype == {"f32": np.float32, "f16": np.float16, "i8": np.int8}[dtype]
    query = vectors[3] + vectors[4]
    scores = dict(zip(keys.tolist(), exact.cosines([stored], query).tolist(), strict=True))
    expected = vectors @ query / np.linalg.norm(query)
    assert [scores[int(row)] for row in ids] == pytest.approx(expected.tolist(), abs=error)


def test_an_empty_index(tmp_path: Path) -> None:
    VectorIndex.build(
        tmp_path,
        np.empty(0, np.int64),
        np.empty((0, 8), np.float32),
    )
    keys, stored = VectorIndex.open(tmp_path).stored()
    assert (keys.tolist(), stored.shape) == ([], (0, 8))
