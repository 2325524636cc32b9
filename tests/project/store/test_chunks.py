"""The chunks of a corpus that is too large for the memory."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.stored import chunk, document, put_document, put_file

from engine.core.errors import DamagedError
from engine.core.records import Chunk
from engine.project.store.chunks import (
    StoredChunk,
    chunk_ids_of,
    document_ids_of,
    find_chunk_rows,
    find_rows_of_documents,
    sample_indices,
)
from engine.project.store.store import Store


@pytest.fixture
def ids_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the chunks that are read."""
    ids = list[int]()
    read = Store.chunk

    def noted(store: Store, key: int) -> Chunk:
        ids.append(key)
        return read(store, key)

    monkeypatch.setattr(Store, "chunk", noted)
    return ids


def test_chunks_of_many_are_read_when_they_are_wanted(store: Store, ids_read: list[int]) -> None:
    row = store.put_document(put_file(store), document())
    store.replace_chunks(row, [chunk(0, "one"), chunk(1, "two", "Heading\n"), chunk(2, "three")])
    whole = list(store.each_chunk())
    stored = store.chunks(in_memory=1)
    keys = [(entry.id, entry.document_id, entry.content_hash) for entry in stored]
    assert keys == [(entry.id, entry.document_id, entry.content_hash) for entry in whole]
    assert ids_read == []
    assert stored[1].embedded_text == "Heading\ntwo"
    assert stored[1].ordinal == 1
    assert ids_read == [whole[1].id] * 2
    assert [astuple(entry) for entry in stored] == [astuple(entry) for entry in whole]
    assert store.chunk(whole[0].id) == whole[0]
    changed = replace(stored[2], embedded_text="other")
    assert (changed.id, changed.text, changed.embedded_text) == (whole[2].id, "three", "other")


def test_rows_are_found_by_id_and_document_without_reading_a_chunk(
    store: Store, ids_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = put_document(store, ["one", "two", "three"])
    second = put_document(
        store,
        ["four", "five"],
        "b.txt",
    )
    store.replace_chunks(first, [chunk(0, "one"), chunk(1, "six"), chunk(2, "three")])
    whole = store.chunks()
    stored = store.chunks(in_memory=1)
    monkeypatch.setattr(
        StoredChunk,
        "of",
        lambda *_: pytest.fail("a chunk was made"),
    )
    shuffled = [whole[row] for row in (3, 0, 4, 1, 2)]
    for chunks in (whole, stored, shuffled):
        ids = chunk_ids_of(chunks).tolist()
        table = np.array([[ids[4], 999], [-1, ids[0]]])
        assert find_chunk_rows(chunks, table).tolist() == [[4, -1], [-1, 0]]
        owners = document_ids_of(chunks).tolist()
        rows = find_rows_of_documents(chunks, {second, 99}).tolist()
        assert rows == [row for row, owner in enumerate(owners) if owner == second]
    assert chunk_ids_of(stored).tolist() == [entry.id for entry in whole]
    assert document_ids_of(stored).tolist() == [first, first, second, second, first]
    assert find_chunk_rows([], [1]).tolist() == [-1]
    assert ids_read == []


def test_some_of_many_chunks_are_replaced(store: Store) -> None:
    put_document(store, ["one", "two", "three"])
    stored = store.stored_chunks()
    other = replace(
        stored[1],
        embedded_text="other",
        content_hash="changed",
    )
    changed = stored.changed({1: other}).changed({2: replace(stored[2], text="last")})
    assert [entry.embedded_text for entry in changed] == ["one", "other", "three"]
    assert [entry.text for entry in changed[1:]] == ["two", "last"]
    assert changed[-2] is other
    assert [entry.embedded_text for entry in stored] == ["one", "two", "three"]


def test_a_chunk_that_is_gone_is_damage(store: Store) -> None:
    row = store.put_document(put_file(store), document())
    store.replace_chunks(row, [chunk(0, "one"), chunk(1, "two")])
    first, _ = store.chunks(in_memory=1)
    store.drop_document(row)
    store.purge_dead()
    with fails(DamagedError, "database-damaged", str(first.id)):
        _ = first.text


def test_chunks_are_read_whole_in_their_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = store.put_document(put_file(store), document())
    store.replace_chunks(row, [chunk(0, "one"), chunk(1, "two"), chunk(2, "three")])
    first, second, third = store.chunks(in_memory=1)
    changed = replace(second, embedded_text="other")
    monkeypatch.setattr(
        Store,
        "chunk",
        lambda *_: pytest.fail("a chunk was read alone"),
    )
    in_order = store.read_whole([third, changed, first])
    assert [entry.text for entry in in_order] == ["three", "two", "one"]
    assert in_order[1] is changed
    assert [type(entry) for entry in in_order] == [Chunk, StoredChunk, Chunk]
    store.drop_document(row)
    store.purge_dead()
    with fails(DamagedError, "database-damaged", str(third.id)):
        store.read_whole([third])


def test_a_few_chunks_are_all_in_memory(store: Store) -> None:
    put_document(store, ["one", "two"])
    assert {type(entry) for entry in store.chunks()} == {Chunk}


def test_all_places_of_few_are_drawn_and_of_many_those_that_are_needed() -> None:
    assert sample_indices(5, seed=1, most=5).tolist() == [0, 1, 2, 3, 4]
    needed = [np.array([[7, -1], [999, 7]]), [500]]
    sample = sample_indices(
        1000,
        1,
        needed,
        most=20,
    )
    assert sample.tolist() == sorted(set(sample.tolist()))
    assert {7, 500, 999} <= set(sample.tolist()) <= set(range(1000))
    assert 20 <= len(sample) <= 23
    assert sample.tolist() == sample_indices(1000, 1, needed, most=20).tolist()
    assert sample.tolist() != sample_indices(1000, 2, needed, most=20).tolist()
