"""CSLS (Conneau et al. 2018): half of a chunk's nearness to queries is taken from its similarity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures.errors import fails
from numpy.typing import NDArray

from engine.core.errors import DamagedError
from engine.ranking.hubness import (
    FILE,
    NEIGHBOURS,
    Csls,
    HubnessReference,
    hub_offsets,
    read_reference,
    unit_rows,
    write_reference,
)

Floats = NDArray[np.float32]


def unit(rows: int, seed: int, width: int = 12) -> Floats:
    return unit_rows(np.random.default_rng(seed).normal(size=(rows, width)))


def offsets(chunks: Floats, queries: Floats) -> Floats:
    """With a document for each chunk, and queries of documents that are no chunk's."""
    reference = HubnessReference(queries, np.full(len(queries), -1, np.int64))
    return hub_offsets(chunks, np.arange(len(chunks), dtype=np.int64), reference)


def test_half_the_mean_cosine_to_the_nearest_queries_by_hand() -> None:
    chunks = np.array([[1, 0], [0, 1]], np.float32)
    reference = np.array([[0.6, 0.8], [1, 0]], np.float32)  # fewer than NEIGHBOURS: all of them count
    assert offsets(chunks, reference) == pytest.approx([(0.6 + 1) / 4, (0.8 + 0) / 4])


def test_only_the_nearest_queries_count() -> None:
    chunk = np.array([[1, 0]], np.float32)
    near, far = np.array([[0.8, 0.6]] * NEIGHBOURS, np.float32), np.array([[-1, 0]] * 50, np.float32)
    assert offsets(chunk, np.concatenate([far, near])) == pytest.approx([0.4])


def test_queries_of_a_chunks_own_document_do_not_count() -> None:
    chunks = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    reference = HubnessReference(np.array([[1, 0], [0.6, 0.8]], np.float32), np.array([7, 8]))
    found = hub_offsets(chunks, np.array([7, 9, 8]), reference)
    assert found == pytest.approx([0.6 / 2, (1 + 0.6) / 4, 0.0])
    alone = HubnessReference(reference.vectors[:1], reference.articles[:1])
    assert hub_offsets(chunks[:1], np.array([7]), alone) == pytest.approx([0.0])


def test_where_there_are_no_hubs_right_chunks_with_and_without_queries_are_treated_alike() -> None:
    """Chunks that training queries were made of must not stand behind those of held-out documents for that."""
    random = np.random.default_rng(5)
    chunks = unit_rows(random.normal(size=(400, 32)))
    queries = unit_rows(chunks + 0.5 * random.normal(size=(400, 32)) / np.sqrt(32))
    documents = np.arange(400)
    found = hub_offsets(chunks, documents, HubnessReference(queries[:300], documents[:300]))
    assert found[:300].mean() == pytest.approx(found[300:].mean(), abs=0.01)
    biased = hub_offsets(
        chunks, documents - 1000, HubnessReference(queries[:300], documents[:300])
    )  # own queries count here
    assert biased[:300].mean() > biased[300:].mean() + 0.01


def test_a_long_computation_can_be_stopped() -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        hub_offsets(unit(3, 0), np.arange(3), HubnessReference(unit(2, 1), np.zeros(2, np.int64)), stop)


def test_the_order_is_that_of_csls() -> None:
    chunks, queries, reference = unit(300, 0), unit(20, 1), unit(500, 2)
    reference[:200] = unit_rows(reference[:200] + 2 * chunks[7])  # chunk 7 is near to many
    near = np.sort(reference @ chunks.T, axis=0)[-NEIGHBOURS:].mean(axis=0)
    back = np.sort(queries @ chunks.T, axis=1)[:, -NEIGHBOURS:].mean(axis=1)
    csls = 2 * queries @ chunks.T - back[:, None] - near
    similarity = Csls(offsets(chunks, reference))
    form = similarity.index_form
    ours = form.similarities(form.query_rows(queries) @ similarity.index_rows(chunks).T, form.query_rows(queries))
    assert ours == pytest.approx((csls + back[:, None]) / 2, abs=1e-6)
    assert (np.argsort(-ours, axis=1)[:, :10] == np.argsort(-csls, axis=1)[:, :10]).all()
    plain = (np.argsort(-(queries @ chunks.T), axis=1)[:, :30] == 7).sum()
    assert (np.argsort(-ours, axis=1)[:, :30] == 7).sum() < plain


@pytest.mark.parametrize("offset", [-1.0, 0.0, 0.3, 1.0])
def test_rows_of_an_index_are_of_unit_length_and_give_back_the_vectors(offset: float) -> None:
    chunks = unit(5, 3)
    similarity = Csls(np.full(5, offset, np.float32))
    rows, form = similarity.index_rows(chunks), similarity.index_form
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(5))
    assert np.linalg.norm(form.query_rows(chunks), axis=1) == pytest.approx(np.ones(5))
    assert form.query_rows(chunks[0]) == pytest.approx(form.query_rows(chunks)[0])
    assert form.vectors(rows) == pytest.approx(chunks, abs=1e-6)


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    reference = HubnessReference(unit(7, 4), np.arange(7) * 3)
    write_reference(tmp_path, reference)
    found = read_reference(tmp_path)
    assert (found.vectors == reference.vectors.astype(np.float16).astype(np.float32)).all()
    assert found.articles.tolist() == [0, 3, 6, 9, 12, 15, 18]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", b"no vectors", b"\x93NUMPY\x01\x00", b"PK\x03\x04 torn"])
def test_a_damaged_hubness_reference_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    with fails(DamagedError, "artifact-damaged", command="evaluate --force"):
        read_reference(tmp_path)


def test_a_torn_reference_is_damage(tmp_path: Path) -> None:
    write_reference(tmp_path, HubnessReference(unit(50, 4), np.arange(50)))
    whole = (tmp_path / FILE).read_bytes()
    for kept in (10, len(whole) // 2, len(whole) - 5):
        (tmp_path / FILE).write_bytes(whole[:kept])
        with pytest.raises(DamagedError):
            read_reference(tmp_path)


@pytest.mark.parametrize("documents", [np.arange(3), np.arange(4)])
def test_vectors_that_cannot_be_used_are_damage(tmp_path: Path, documents: NDArray[np.int64]) -> None:
    write_reference(
        tmp_path, HubnessReference(np.full((3, 4), np.nan if len(documents) == 3 else 0.5, np.float32), documents)
    )
    with fails(DamagedError, "artifact-damaged"):
        read_reference(tmp_path)
