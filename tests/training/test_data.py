from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fixtures.errors import fails
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import TooLittleTextError
from engine.ranking.sampling import SampledLists
from engine.training.batches import BatchSampler, with_evidence
from engine.training.compute.micro_batches import micro_batches
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData

RANKED = np.array([[3, 0, 5, 1, -1], [1, 2, 4, 5, 0], [0, 3, -1, -1, -1], [5, 4, 3, 2, 1]])
SCORES = np.array(
    [[9, 7, 5, 3, 0], [8, 6, 4, 2, 1], [4, 2, 0, 0, 0], [10, 9, 8, 7, 6]], dtype=np.float32
)


def make_data(**changes: object) -> TrainingData:
    data = TrainingData(
        ["a", "b", "c", "d"],
        np.array([3, 2, 0, 1]),
        RANKED,
        SCORES,
        [f"chunk {i}" for i in range(6)],
    )
    return dataclasses.replace(data, **changes)  # type: ignore[arg-type]


def make_config(**changes: object) -> TrainingConfig:
    return dataclasses.replace(
        TrainingConfig(queries_per_step=2, negatives_per_query=1, negative_ranks=(1, 4)),
        **changes,  # type: ignore[arg-type]
    )


def test_bm25_of_every_pair_comes_from_the_rankings() -> None:
    batch = BatchSampler(make_data(), make_config(queries_per_step=4, negatives_per_query=3)).batch(
        0
    )
    for row, query in enumerate(batch.queries):
        known = {
            int(c): float(s) for c, s in zip(RANKED[query], SCORES[query], strict=True) if c >= 0
        }
        assert batch.bm25[row].tolist() == [known.get(int(chunk), 0.0) for chunk in batch.chunks]
    assert (batch.bm25 > 0).sum() > 8


def test_positives_are_columns_of_their_chunks() -> None:
    data = make_data()
    for step in range(4):
        batch = BatchSampler(data, make_config()).batch(step)
        assert batch.chunks[batch.positives].tolist() == data.positives[batch.queries].tolist()
        assert np.all(np.diff(batch.chunks) > 0)


def test_negatives_come_from_their_ranks_and_are_not_the_positive() -> None:
    data = make_data()
    config = make_config(queries_per_step=1)
    seen: dict[int, set[int]] = {}
    for step in range(80):
        batch = BatchSampler(data, config).batch(step)
        query = int(batch.queries[0])
        others = set(batch.chunks.tolist()) - {int(data.positives[query])}
        assert len(others) <= 1
        seen.setdefault(query, set()).update(others)
    assert seen == {0: {0, 5, 1}, 1: {4, 5}, 2: {3}, 3: {4, 3, 2}}


def test_an_epoch_takes_every_query_once_and_the_next_another_order() -> None:
    sampler = BatchSampler(make_data(), make_config(queries_per_step=2))
    epochs = [
        [int(q) for step in (2 * e, 2 * e + 1) for q in sampler.batch(step).queries]
        for e in range(6)
    ]
    assert all(sorted(epoch) == [0, 1, 2, 3] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_batches_depend_on_seed_and_step_alone() -> None:
    first, second = (BatchSampler(make_data(), make_config()) for _ in range(2))
    for step in range(5):
        first.batch(step)
    a = first.batch(7)
    b = second.batch(7)
    assert a.queries.tolist() == b.queries.tolist()
    assert a.chunks.tolist() == b.chunks.tolist()
    other = [
        BatchSampler(make_data(), make_config(seed=1)).batch(step).queries.tolist()
        for step in range(6)
    ]
    assert other != [second.batch(step).queries.tolist() for step in range(6)]


LISTS = SampledLists(
    np.array([1, 0]), np.array([[1, 4, 5], [5, 3, -1]]), np.array([[8, 4, 2], [9, 5, 0.0]])
)


@pytest.mark.parametrize("objective", ["listnet", "listmle"])
def test_lists_restrict_each_query_to_its_own_chunks_with_its_evidence(objective: str) -> None:
    sampler = BatchSampler(
        make_data(lists=LISTS), make_config(objective=objective, queries_per_step=2)
    )
    batch = sampler.batch(0)
    assert batch.chunks.tolist() == [2, 3, 4, 5]
    assert batch.candidates is not None
    rows = {int(query): row for row, query in enumerate(batch.queries)}
    # Chunk 2 is the evidence of query 1 and was not drawn: it stands in for the first chunk, with
    # its own score.
    assert batch.candidates[rows[1]].tolist() == [True, False, True, True]
    assert batch.bm25[rows[1]].tolist() == [6, 0, 4, 2]
    assert batch.positives[rows[1]] == 0
    # Chunk 3 is the evidence of query 0 and stays where it was drawn, below chunk 5.
    assert batch.candidates[rows[0]].tolist() == [False, True, False, True]
    assert batch.bm25[rows[0]].tolist() == [0, 5, 0, 9]
    assert batch.positives[rows[0]] == 1


def test_lists_stay_as_they_were_drawn_where_that_is_asked_for() -> None:
    data = make_data(lists=LISTS, keep_evidence=False)
    batch = BatchSampler(data, make_config(objective="listnet", queries_per_step=2)).batch(0)
    assert batch.chunks.tolist() == [1, 3, 4, 5], "chunk 2, the evidence of query 1, was not drawn"
    assert batch.candidates is not None
    rows = {int(query): row for row, query in enumerate(batch.queries)}
    assert batch.candidates[rows[1]].tolist() == [True, False, True, True]
    assert batch.bm25[rows[1]].tolist() == [8, 0, 4, 2]
    assert batch.positives.max() < len(batch.chunks)
    assert data.digest() != make_data(lists=LISTS).digest(), (
        "a checkpoint of one is not one of the other"
    )


def test_entailment_has_the_evidence_chunk_also_where_no_list_does() -> None:
    config = make_config(
        objective="listnet",
        queries_per_step=2,
        similarity="lorentz",
    )
    batch = BatchSampler(make_data(lists=LISTS, keep_evidence=False), config).batch(0)
    assert batch.chunks[batch.positives].tolist() == make_data().positives[batch.queries].tolist()
    assert batch.candidates is not None
    assert not batch.candidates[:, batch.chunks.tolist().index(2)].any(), "no list holds it"


def test_evidence_that_was_not_drawn_takes_the_first_place_with_its_own_score() -> None:
    lists = with_evidence(LISTS, make_data())
    assert lists.chunks.tolist() == [[2, 4, 5], [5, 3, -1]]
    assert lists.scores.tolist() == [[6, 4, 2], [9, 5, 0]]  # 6: what BM25 gives chunk 2 for query 1
    beyond = with_evidence(LISTS, make_data(positives=np.array([4, 3, 0, 1])))  # in neither ranking
    assert beyond.chunks.tolist() == [[3, 4, 5], [4, 3, -1]]
    assert beyond.scores.tolist() == [[0, 4, 2], [0, 5, 0]]
    assert LISTS.chunks[0, 0] == 1, "the lists that were given are left alone"


def test_other_objectives_take_no_lists() -> None:
    batch = BatchSampler(make_data(lists=LISTS), make_config(objective="mixed")).batch(0)
    assert batch.candidates is None


@pytest.mark.parametrize("objective", ["triplet", "plackett_luce"])
def test_own_negatives_restrict_each_query_to_them_and_its_evidence(objective: str) -> None:
    data = make_data()
    config = make_config(
        objective=objective,
        queries_per_step=4,
        negatives_per_query=2,
    )
    for step in range(10):
        batch = BatchSampler(data, config).batch(step)
        assert batch.candidates is not None
        for row, query in enumerate(batch.queries):
            own = set(batch.chunks[batch.candidates[row]].tolist())
            evidence = int(data.positives[query])
            assert evidence in own
            ranked = {int(c) for c in RANKED[query, 1:4] if c >= 0} - {evidence}
            assert own - {evidence} <= ranked
            assert len(own) == 1 + min(2, len(ranked))
        assert (
            batch.chunks.tolist()
            == BatchSampler(data, make_config(queries_per_step=4, negatives_per_query=2))
            .batch(step)
            .chunks.tolist()
        )


def test_nothing_to_train_on() -> None:
    with fails(TooLittleTextError, "too-little-to-train"):
        TrainingData(
            [],
            np.empty(0, int),
            np.empty((0, 5), int),
            np.empty((0, 5), np.float32),
            ["one", "two"],
        )


def test_the_digest_sees_every_part() -> None:
    base = make_data()
    variants = [
        make_data(queries=["a", "b", "c", "D"]),
        make_data(chunks=[f"Chunk {i}" for i in range(6)]),
        make_data(ranked_scores=SCORES + 1),
        make_data(positives=np.array([3, 2, 0, 0])),
        make_data(heldout_queries=["x"], heldout_positives=np.array([1])),
    ]
    assert len({data.digest() for data in [base, *variants]}) == 6
    assert make_data().digest() == base.digest()


@given(st.lists(st.integers(1, 300), min_size=1, max_size=80), st.integers(16, 2048))
def test_micro_batches_hold_every_text_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    batches = micro_batches(
        lengths,
        budget,
        offset=5,
    )
    assert sorted(int(p) for batch in batches for p in batch.places) == list(
        range(5, 5 + len(lengths))
    )
    for batch in batches:
        longest = max(lengths[p - 5] for p in batch.places)
        assert len(batch.places) == 1 or len(batch.places) * (-(-longest // 16) * 16) <= budget
        assert len(batch.places) < 4 or len(batch.places) % 4 == 0


def test_micro_batches_by_hand() -> None:
    # Padded lengths 48 | 32 32 | 16: budget 64 holds one of 48, two of 32, four of 16.
    batches = micro_batches([16, 40, 30, 20, 10], 64)
    assert [batch.places.tolist() for batch in batches] == [[1], [2, 3], [0, 4]]


def drawn(
    share: float | None, everyday: list[bool], steps: int, **changes: object
) -> list[list[int]]:
    data = make_data(everyday=np.array(everyday))
    sampler = BatchSampler(data, make_config(everyday_share=share, **changes))
    return [sampler.batch(step).queries.tolist() for step in range(steps)]


def test_a_share_of_everyday_queries_is_drawn_in_every_step() -> None:
    """One of four queries is an everyday one: half of every step of two, so that it comes in
    each.
    """
    batches = drawn(
        0.5,
        [False, True, False, False],
        6,
    )
    assert [batch.count(1) for batch in batches] == [1] * 6
    others = [query for batch in batches for query in batch if query != 1]
    assert sorted(others[:3]) == sorted(others[3:]) == [0, 2, 3], (
        "each pass takes all of the others once"
    )


def test_a_share_that_is_no_whole_number_of_a_step_is_met_over_steps() -> None:
    """0.25 of two queries a step: one everyday query in every second step."""
    batches = drawn(
        0.25,
        [True, True, False, False],
        8,
    )
    assert sum(query < 2 for batch in batches for query in batch) == 4
    assert {len(batch) for batch in batches} == {2}


@pytest.mark.parametrize(("share", "allowed"), [(0.0, {2, 3}), (1.0, {0, 1})])
def test_a_share_of_0_or_1_draws_one_kind_of_query_only(share: float, allowed: set[int]) -> None:
    assert {
        query for batch in drawn(share, [True, True, False, False], 4) for query in batch
    } == allowed


def test_no_query_comes_twice_in_a_step_for_want_of_others() -> None:
    batch, *_ = drawn(
        1.0,
        [True, False, False, False],
        1,
        queries_per_step=4,
    )
    assert batch == [0]


def test_without_a_share_or_of_one_kind_queries_come_as_they_do() -> None:
    plain = [
        BatchSampler(make_data(), make_config()).batch(step).queries.tolist() for step in range(5)
    ]
    assert drawn(None, [True, False, True, False], 5) == plain
    assert drawn(0.5, [True] * 4, 5) == drawn(0.5, [False] * 4, 5) == plain


def test_the_share_depends_on_seed_and_step_alone_and_holds_for_lists() -> None:
    everyday = [True, True, False, False]
    assert drawn(0.5, everyday, 5) == drawn(0.5, everyday, 5) != drawn(0.5, everyday, 5, seed=1)
    data = make_data(lists=LISTS, everyday=np.array([True, False, False, False]))
    sampler = BatchSampler(
        data, make_config(objective="listnet", queries_per_step=2, everyday_share=1.0)
    )
    assert sampler.batch(0).queries.tolist() == [0], "the list of query 0 is the only everyday one"


def test_what_is_everyday_is_part_of_the_data_where_a_share_is_drawn() -> None:
    some, others = (make_data(everyday=np.array([row == n for row in range(4)])) for n in (0, 1))
    assert len({make_data().digest(), some.digest(), others.digest()}) == 3
