from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.vector_indexes import WIDTH, brute_force, build, ids_of, unit

from engine.core.arrays import Ranking
from engine.core.errors import DamagedError, EngineError
from engine.encoders.geometry.lorentz import Lorentz
from engine.encoders.geometry.similarity import IndexForm, Similarity
from engine.vectors.forms import INDEX_FORMS
from engine.vectors.graph import find_candidates, graph_of, map_graph, write_graph
from engine.vectors.index import IndexSizes, VectorIndex


@pytest.mark.parametrize(("dtype", "error"), [("f32", 1e-5), ("f16", 2e-3), ("i8", 3e-2)])
@pytest.mark.parametrize("reopened", [False, True])
def test_search_agrees_with_brute_force(
    tmp_path: Path, dtype: str, error: float, reopened: bool
) -> None:
    index, ids, vectors = build(
        tmp_path / "index",
        300,
        dtype,
    )
    if reopened:
        index = VectorIndex.open(tmp_path / "index")
    allowed = np.append(ids[::3], [1, 2, 10**6])
    inside = np.isin(ids, allowed)
    for query in unit(20, seed=1):
        whole = brute_force(query, ids, vectors)
        part = brute_force(
            query,
            ids[inside],
            vectors[inside],
        )
        check_ranking(
            index.search(query, 10),
            whole,
            error,
            exact=dtype == "f32",
        )
        check_ranking(
            index.search_among(query, allowed, 10),
            part,
            error,
            exact=dtype == "f32",
        )


def check_ranking(
    ranking: Ranking,
    expected: Ranking,
    error: float,
    *,
    exact: bool,
) -> None:
    """The 10 best have the similarities of the `expected` ranking of all, up to `error`.

    With `exact`, they are also in its order.
    """
    found_ids, scores = ranking
    expected_ids, expected_scores = expected
    assert (found_ids.dtype, scores.dtype, len(found_ids)) == (np.int64, np.float32, 10)
    assert (np.diff(scores) <= 0).all()
    np.testing.assert_allclose(
        scores,
        expected_scores[:10],
        atol=error,
    )
    by_id = dict(zip(expected_ids.tolist(), expected_scores.tolist(), strict=True))
    np.testing.assert_allclose(
        [by_id[key] for key in found_ids.tolist()],
        scores,
        atol=error,
    )
    if exact:
        assert found_ids.tolist() == expected_ids[:10].tolist()


@pytest.mark.parametrize("width", [24, 300])
def test_a_large_index_is_searched_by_a_graph_with_high_recall(tmp_path: Path, width: int) -> None:
    """Vectors of few directions, far from the origin, as those of some encoders."""
    sizes = IndexSizes(
        exact_up_to=1000,
        graph_from=1000,
        block=700,
        candidates=128,
    )
    unscaled = unit(5000, width=12) @ unit(12, seed=3, width=width) + unit(1, seed=7, width=width)
    vectors = unscaled / np.linalg.norm(unscaled, axis=1, keepdims=True)
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    index = VectorIndex.build(
        tmp_path / "0",
        np.arange(3000),
        vectors[:3000],
        sizes=sizes,
    )
    second = index.updated(
        tmp_path / "1",
        np.arange(3000, 4900),
        vectors[3000:4900],
        range(50),
    )
    assert second is not None
    grown = second.updated(
        tmp_path / "2",
        np.arange(4900, 5000),
        vectors[4900:],
        range(50, 100),
    )
    assert grown is not None
    shares = []
    for query in vectors[4850:4950] + 0.05 * unit(100, seed=2, width=width):
        found_ids, scores = grown.search(query, 10)
        exact, right = grown.search_exactly(query, 10)
        _, cosines = brute_force(
            query / np.linalg.norm(query),
            np.arange(100, 5000),
            vectors[100:],
        )
        assert right == pytest.approx(cosines[:10], abs=1e-3)
        shares.append(len(set(found_ids.tolist()) & set(exact.tolist())) / 10)
        assert scores[0] <= right[0] + 1e-6  # both are rounded, differently by each BLAS
    assert list(grown.manifest["graphs"]) == list(second.manifest["parts"])
    assert [rows for rows, _ in grown.manifest["parts"].values()] == [3000, 1900, 100]
    np.testing.assert_allclose(
        grown.rows(np.arange(100, 5000)),
        vectors[100:],
        atol=1e-3,
    )
    assert np.mean(shares) >= 0.99


def test_ties_come_in_order_of_id(tmp_path: Path) -> None:
    row = unit(1)
    index = VectorIndex.build(
        tmp_path,
        np.array([9, 3, 7, 5]),
        np.repeat(row, 4, axis=0),
    )
    assert index.search(row[0], 4)[0].tolist() == [3, 5, 7, 9]
    assert index.search_among(row[0], np.array([9, 5, 7]), 2)[0].tolist() == [5, 7]


@pytest.mark.parametrize("k", [40, 41, 10_000, 2**40])
def test_k_above_n_gives_n(folder: Path, k: int) -> None:
    index = VectorIndex.open(folder)
    found_ids, scores = index.search(unit(1, seed=3)[0], k)
    assert sorted(found_ids.tolist()) == sorted(ids_of(40).tolist())
    assert len(scores) == 40
    assert len(index.search_among(unit(1, seed=3)[0], ids_of(40)[:7], k)[0]) == 7


@pytest.mark.parametrize("k", [0, -3])
def test_k_below_one_gives_nothing(folder: Path, k: int) -> None:
    index = VectorIndex.open(folder)
    query = unit(1)[0]
    assert [
        len(part) for part in (*index.search(query, k), *index.search_among(query, ids_of(40), k))
    ] == [0] * 4


def test_an_empty_index(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)
    VectorIndex.build(
        tmp_path,
        none,
        np.empty((0, WIDTH), np.float32),
    )
    index = VectorIndex.open(tmp_path)
    query = unit(1)[0]
    assert (index.count, len(index.keys())) == (0, 0)
    assert [
        len(part)
        for part in (*index.search(query, 5), *index.search_among(query, np.array([1]), 5))
    ] == [0] * 4
    (tmp_path / "next").mkdir()
    grown = VectorIndex.open(tmp_path).updated(
        tmp_path / "next",
        np.array([4]),
        unit(1),
        [],
    )
    assert grown is not None
    assert grown.search(query, 5)[0].tolist() == [4]


def test_search_among_takes_unknown_repeated_and_no_ids(folder: Path) -> None:
    index = VectorIndex.open(folder)
    query = unit(1)[0]
    stored_ids = ids_of(40)[:2]
    assert sorted(
        index.search_among(query, np.array([*stored_ids, *stored_ids, -4, 0, 10**9]), 9)[0].tolist()
    ) == sorted(stored_ids.tolist())
    assert index.search_among(query, np.empty(0, np.int64), 9)[0].tolist() == []
    assert index.search_among(query, np.array([0]), 9)[0].tolist() == []


def test_search_among_refuses_another_width_where_no_chunk_is_allowed(folder: Path) -> None:
    with fails(EngineError, "model-changed"):
        VectorIndex.open(folder).search_among(
            unit(1)[0, :-1],
            np.empty(0, np.int64),
            9,
        )


def test_a_vector_of_zeros_has_a_finite_score(tmp_path: Path) -> None:
    vectors = np.vstack([unit(1), np.zeros((1, WIDTH), np.float32)])
    index = VectorIndex.build(
        tmp_path,
        np.array([1, 2]),
        vectors,
    )
    for found_ids, scores in (
        index.search(vectors[0], 2),
        index.search_among(vectors[0], np.array([1, 2]), 2),
    ):
        assert found_ids.tolist() == [1, 2]
        np.testing.assert_allclose(
            scores,
            [1, 0],
            atol=1e-3,
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(
    tmp_path: Path,
    folder: Path,
    bad: float,
) -> None:
    vectors = unit(3)
    vectors[1, 2] = bad
    with fails(EngineError, "vectors-not-finite"):
        VectorIndex.build(
            tmp_path,
            np.arange(3),
            vectors,
        )
    with fails(EngineError, "vectors-not-finite"):
        VectorIndex.open(folder).updated(
            tmp_path,
            np.arange(1000, 1003),
            vectors,
            [],
        )
    with fails(EngineError, "vectors-not-finite"):
        VectorIndex.open(folder).search(vectors[1], 3)
    with fails(EngineError, "vectors-not-finite"):
        VectorIndex.open(folder).search_among(
            vectors[1],
            ids_of(40),
            3,
        )


def test_a_query_of_another_width_is_an_error(folder: Path) -> None:
    with fails(EngineError, "model-changed"):
        VectorIndex.open(folder).search(unit(1, width=8)[0], 3)
    with fails(EngineError, "model-changed"):
        VectorIndex.open(folder).search_among(
            unit(1, width=8)[0],
            ids_of(40),
            3,
        )


@pytest.mark.parametrize("ids", [[1, 1, 2], [1, 2], [1, -2, 3]])
def test_ids_that_do_not_fit_are_refused(tmp_path: Path, ids: list[int]) -> None:
    with pytest.raises(ValueError, match="ids"):
        VectorIndex.build(
            tmp_path,
            np.array(ids),
            unit(3),
        )


# update


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_update_adds_and_removes_in_a_copy(tmp_path: Path, dtype: str) -> None:
    _, ids, vectors = build(
        tmp_path / "former",
        60,
        dtype,
    )
    before = contents(tmp_path / "former")
    (tmp_path / "new").mkdir()
    added = np.arange(1000, 1010)
    fresh = unit(10, seed=5)
    assert (
        VectorIndex.open(tmp_path / "former").updated(
            tmp_path / "new", added, fresh, ids[:6].tolist()
        )
        is not None
    )
    assert contents(tmp_path / "former") == before
    index = VectorIndex.open(tmp_path / "new")
    all_ids = np.concatenate([ids[6:], added])
    all_vectors = np.concatenate([vectors[6:], fresh])
    assert (index.count, sorted(index.keys().tolist())) == (64, sorted(all_ids.tolist()))
    for query in [*vectors[:6], *fresh[:3]]:
        found_ids, scores = index.search(query, 64)
        expected, right = brute_force(query, all_ids, all_vectors)
        assert sorted(found_ids.tolist()) == sorted(all_ids.tolist())
        np.testing.assert_allclose(
            scores,
            right,
            atol=3e-2,
        )
        if dtype == "f32":
            assert found_ids.tolist() == expected.tolist()
        assert not set(index.search_among(query, ids[:6], 6)[0].tolist())


def test_updates_are_counted_until_a_rebuild_is_due(tmp_path: Path) -> None:
    _, ids, _ = build(tmp_path / "0", 50)
    none = np.empty(0, np.int64)
    no_vectors = np.empty((0, WIDTH), np.float32)
    for number, (first, last) in enumerate([(0, 4), (4, 8)]):
        (tmp_path / str(number + 1)).mkdir()
        updated = VectorIndex.open(tmp_path / str(number)).updated(
            tmp_path / str(number + 1), none, no_vectors, ids[first:last].tolist()
        )
        assert updated is not None
        assert updated.manifest["removed"] == last
    (tmp_path / "3").mkdir()
    assert (
        VectorIndex.open(tmp_path / "2").updated(
            tmp_path / "3", none, no_vectors, ids[8:12].tolist()
        )
        is None
    )
    assert contents(tmp_path / "3") == {}
    assert VectorIndex.open(tmp_path / "2").count == 42


def test_small_parts_become_one_and_large_ones_are_links(tmp_path: Path) -> None:
    index, ids, vectors = build(tmp_path / "0", 64)
    extra = unit(8, seed=5)
    for number in range(8):
        (tmp_path / str(number + 1)).mkdir()
        key = np.array([1000 + number])
        grown = index.updated(
            tmp_path / str(number + 1), key, extra[number : number + 1], ids[number : number + 1]
        )
        assert grown is not None
        index = grown
    sizes = [rows for rows, _ in index.manifest["parts"].values()]
    assert (sizes, index.count, index.manifest["removed"]) == ([64, 8], 64, 8)
    first = next(iter(index.manifest["parts"]))
    assert (tmp_path / "8" / first).samefile(tmp_path / "0" / first)
    expected = np.concatenate([ids[8:], np.arange(1000, 1008)])
    everything = np.concatenate([vectors[8:], extra])
    for query in (*extra, *vectors[:4]):
        assert (
            index.search(query, 64)[0].tolist()
            == brute_force(query, expected, everything)[0].tolist()
        )
    keys, rows = index.stored()
    assert keys.tolist() == sorted(expected.tolist())
    np.testing.assert_array_equal(rows, everything[np.argsort(expected)])


def test_a_graph_is_linked_and_its_damage_is_found(tmp_path: Path) -> None:
    sizes = IndexSizes(exact_up_to=50, graph_from=50)
    index, ids, vectors = build(
        tmp_path / "0",
        64,
        sizes=sizes,
    )
    graph = graph_of(tmp_path / "1" / next(iter(index.manifest["parts"])))
    (tmp_path / "1").mkdir()
    grown = index.updated(
        tmp_path / "1",
        np.array([1000]),
        unit(1, seed=5),
        ids[:1],
    )
    assert grown is not None
    assert list(grown.manifest["graphs"]) == list(index.manifest["parts"])
    assert graph.samefile(graph_of(tmp_path / "0" / next(iter(index.manifest["parts"]))))
    opened = VectorIndex.open(tmp_path / "1", sizes)
    assert (
        opened.search(vectors[0], 10)[0].tolist()
        == opened.search_exactly(vectors[0], 10)[0].tolist()
    )
    data = bytearray(graph.read_bytes())
    data[len(data) // 2] ^= 1
    del index, grown, opened  # Windows does not remove what is mapped
    graph.unlink()
    graph.write_bytes(data)
    with fails(DamagedError, "index-damaged"):
        VectorIndex.open(tmp_path / "1")


def test_a_large_file_gets_its_graph_when_the_index_becomes_large(tmp_path: Path) -> None:
    index, _, _ = build(
        tmp_path / "0",
        64,
        sizes=IndexSizes(exact_up_to=100, graph_from=50),
    )
    assert index.manifest["graphs"] == {}
    # 94 rows, then 114, of which 50 become one file
    for folder, key, rows in (
        ("1", 1000, 30),
        ("2", 2000, 20),
    ):
        (tmp_path / folder).mkdir()
        grown = index.updated(
            tmp_path / folder, np.arange(key, key + rows), unit(rows, seed=rows), []
        )
        assert grown is not None
        assert list(grown.manifest["graphs"]) == (
            list(grown.manifest["parts"])[:1] if grown.count > 100 else []
        )
        index = grown
    opened = VectorIndex.open(tmp_path / "2")
    for query in unit(9, seed=20):
        assert opened.search(query, 10)[0].tolist() == opened.search_exactly(query, 10)[0].tolist()


def test_a_graph_finds_what_an_exact_search_finds(tmp_path: Path) -> None:
    rows = unit(3000, width=40)
    write_graph(
        tmp_path / "a.usearch",
        [rows[:1000], rows[1000:]],
        40,
    )
    graph = map_graph(tmp_path / "a.usearch")
    hits = 0
    for query in unit(20, seed=4, width=40):
        cosines = rows @ query
        places, distances = find_candidates(
            [(0, graph)],
            query,
            256,
        )
        named = set(places.tolist())
        assert distances == pytest.approx(1 - cosines[places], abs=2e-2)
        assert len(named) == 256
        hits += len(named & set(np.argsort(-cosines)[:10].tolist()))
    assert hits >= 195  # of 200: threads build graphs, each time a little differently


def test_removing_unknown_keys_counts_for_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    updated = VectorIndex.open(folder).updated(
        tmp_path / "new",
        np.empty(0, np.int64),
        np.empty((0, WIDTH), np.float32),
        range(10**5, 10**5 + 99),
    )
    assert updated is not None
    assert (updated.count, updated.manifest["removed"]) == (40, 0)


def test_adding_a_known_key_replaces_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    key = ids_of(40)[:1]
    fresh = unit(1, seed=8)
    updated = VectorIndex.open(folder).updated(
        tmp_path / "new",
        key,
        fresh,
        [],
    )
    assert updated is not None
    found_ids, scores = updated.search(fresh[0], 40)
    assert (updated.count, found_ids[0], len(set(found_ids.tolist()))) == (40, key[0], 40)
    assert scores[0] == pytest.approx(1, abs=1e-5)


# damage


class HalvedForm(IndexForm):
    name = "halved"

    def similarities(self, values: Any) -> Any:
        return values / 2


class Halved(Similarity):
    index_form = HalvedForm()


def test_an_index_opens_in_the_form_that_its_manifest_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plain", "halved"):
        (tmp_path / name).mkdir()
    plain = VectorIndex.build(
        tmp_path / "plain",
        ids_of(40),
        unit(40),
        dtype="f32",
    )
    monkeypatch.setitem(
        INDEX_FORMS,
        "halved",
        Halved.index_form,
    )
    VectorIndex.build(
        tmp_path / "halved",
        ids_of(40),
        unit(40),
        similarity=Halved(),
        dtype="f32",
    )
    assert json.loads((tmp_path / "halved" / "manifest.json").read_text())["form"] == "halved"
    query = unit(1, seed=1)[0]
    ids, scores = VectorIndex.open(tmp_path / "halved").search(query, 40)
    expected, cosines = plain.search(query, 40)
    assert ids.tolist() == expected.tolist()
    assert scores == pytest.approx(cosines / 2, abs=1e-6)
    monkeypatch.delitem(INDEX_FORMS, "halved")
    with fails(DamagedError, "index-damaged"):
        VectorIndex.open(tmp_path / "halved")


def points(
    count: int,
    seed: int = 0,
    width: int = 64,
) -> np.ndarray:
    """Of hyperbolic space, at distances of 0.2 to 3 from its origin."""
    lengths = np.random.default_rng([seed, 1]).uniform(
        0.2,
        3,
        (count, 1),
    )
    directions = np.random.default_rng(seed).normal(size=(count, width))
    return (
        np.sinh(lengths) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    ).astype(np.float32)


def test_an_index_ranks_by_lorentz_distance_among_all_of_many(tmp_path: Path) -> None:
    sizes = IndexSizes(exact_up_to=100, graph_from=50)
    ids = np.arange(10_000)
    chunks = points(10_000)
    queries = points(50, seed=1)
    VectorIndex.build(
        tmp_path,
        ids,
        chunks,
        similarity=Lorentz(),
        dtype="f32",
        sizes=sizes,
    )
    index = VectorIndex.open(tmp_path, sizes)
    assert not index.manifest["graphs"]
    form = Lorentz(1.0)
    exact = form.of_products(
        form.query_form(queries).astype(float) @ form.chunk_form(chunks).astype(float).T
    )
    for query, distances in zip(queries, exact, strict=True):
        found_ids, scores = index.search(query, 10)
        assert set(found_ids) == set(np.argsort(-distances)[:10])
        assert scores == pytest.approx(distances[found_ids], abs=1e-4)


def test_points_of_any_length_join_an_index(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    chunks = points(100)
    VectorIndex.build(
        tmp_path / "first",
        np.arange(100),
        chunks,
        similarity=Lorentz(),
        dtype="f32",
    )
    beyond = chunks[np.argmax(np.linalg.norm(chunks, axis=1))][None] * np.float32(3)
    grown = VectorIndex.open(tmp_path / "first").updated(
        tmp_path / "second", np.array([100]), beyond, []
    )
    assert grown is not None
    assert grown.search(beyond[0], 1)[0].tolist() == [100]
    assert grown.form.vectors(grown.rows(np.array([100]))) == pytest.approx(beyond, rel=1e-6)
