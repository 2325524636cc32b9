"""CSLS (Conneau et al. 2018): half of a chunk's nearness to queries is taken from its similarity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import DamagedError
from engine.ranking.hubness import (
    FILE,
    NEIGHBOURS,
    SCALE,
    hub_offsets,
    lifted,
    lifted_query,
    lowered,
    read_bank,
    unit_rows,
    write_bank,
)

Floats = NDArray[np.float32]


def unit(rows: int, seed: int, width: int = 12) -> Floats:
    return unit_rows(np.random.default_rng(seed).normal(size=(rows, width)))


def test_half_the_mean_cosine_to_the_nearest_queries_by_hand() -> None:
    chunks = np.array([[1, 0], [0, 1]], np.float32)
    bank = np.array([[0.6, 0.8], [1, 0]], np.float32)  # fewer than NEIGHBOURS: all of them count
    assert hub_offsets(chunks, bank) == pytest.approx([(0.6 + 1) / 4, (0.8 + 0) / 4])


def test_only_the_nearest_queries_count() -> None:
    chunk = np.array([[1, 0]], np.float32)
    near, far = np.array([[0.8, 0.6]] * NEIGHBOURS, np.float32), np.array([[-1, 0]] * 50, np.float32)
    assert hub_offsets(chunk, np.concatenate([far, near])) == pytest.approx([0.4])


def test_the_order_is_that_of_csls() -> None:
    chunks, queries, bank = unit(300, 0), unit(20, 1), unit(500, 2)
    bank[:200] = unit_rows(bank[:200] + 2 * chunks[7])  # chunk 7 is near to many
    near = np.sort(bank @ chunks.T, axis=0)[-NEIGHBOURS:].mean(axis=0)
    back = np.sort(queries @ chunks.T, axis=1)[:, -NEIGHBOURS:].mean(axis=1)
    csls = 2 * queries @ chunks.T - back[:, None] - near
    ours = SCALE * lifted_query(queries) @ lifted(chunks, hub_offsets(chunks, bank)).T
    assert ours == pytest.approx((csls + back[:, None]) / 2, abs=1e-6)
    assert (np.argsort(-ours, axis=1)[:, :10] == np.argsort(-csls, axis=1)[:, :10]).all()
    plain = (np.argsort(-(queries @ chunks.T), axis=1)[:, :30] == 7).sum()
    assert (np.argsort(-ours, axis=1)[:, :30] == 7).sum() < plain


@pytest.mark.parametrize("offset", [-1.0, 0.0, 0.3, 1.0])
def test_lifted_vectors_are_of_unit_length_and_can_be_lowered(offset: float) -> None:
    chunks = unit(5, 3)
    high = lifted(chunks, np.full(5, offset, np.float32))
    assert np.linalg.norm(high, axis=1) == pytest.approx(np.ones(5))
    assert np.linalg.norm(lifted_query(chunks), axis=1) == pytest.approx(np.ones(5))
    assert lifted_query(chunks[0]) == pytest.approx(lifted_query(chunks)[0])
    assert lowered(high) == pytest.approx(chunks, abs=1e-6)


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    bank = unit(7, 4)
    write_bank(tmp_path, bank)
    assert (read_bank(tmp_path) == bank.astype(np.float16).astype(np.float32)).all()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", b"no vectors", b"\x93NUMPY\x01\x00"])
def test_a_damaged_bank_is_told(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    with pytest.raises(DamagedError, match="engine evaluate --force"):
        read_bank(tmp_path)


def test_vectors_that_are_not_finite_are_damage(tmp_path: Path) -> None:
    np.save(tmp_path / FILE, np.full((3, 4), np.nan, np.float16))
    with pytest.raises(DamagedError, match="cannot be used"):
        read_bank(tmp_path)
