"""Sampled lists: one chunk of each interval, reproducible for each query alone."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ranking.rankings_file import RankedLists
from engine.ranking.sampling import partition_ranks, sample_lists


def ranked(lengths: list[int], query_ids: list[int]) -> RankedLists:
    lists = [
        (
            [1_000 * query + rank for rank in range(length)],
            [float(length - rank) for rank in range(length)],
        )
        for query, length in zip(query_ids, lengths, strict=True)
    ]
    return RankedLists.from_lists(query_ids, lists)


def test_each_list_has_one_chunk_of_each_interval_with_its_score() -> None:
    lists = sample_lists(
        ranked([500, 500], [4, 9]),
        m=9,
        lists_per_query=50,
        seed=1,
    )
    assert lists.queries.tolist() == [4] * 50 + [9] * 50
    ranks = lists.chunks - lists.queries[:, None] * 1_000
    for column, (low, high) in enumerate(partition_ranks(500, 9)):
        assert (ranks[:, column] >= low).all()
        assert (ranks[:, column] < high).all()
    assert (lists.scores == 500 - ranks).all()


def test_every_rank_of_an_interval_is_drawn_about_equally_often() -> None:
    lists = sample_lists(
        ranked([50], [0]),
        m=2,
        lists_per_query=9_000,
    )
    counts = np.bincount(lists.chunks[:, 0], minlength=3)
    assert counts / 9_000 == pytest.approx([1 / 3] * 3, abs=0.03)
    assert len(np.unique(lists.chunks[:, 1])) == 47


def test_a_query_with_few_results_gets_its_own_partition_and_one_without_is_left_out() -> None:
    lists = sample_lists(ranked([100, 5, 0, 1], [1, 2, 3, 4]), m=4)
    assert lists.queries.tolist() == [1, 2, 4]
    assert (lists.chunks >= 0).sum(axis=1).tolist() == [4, 3, 1]
    assert lists.chunks[1, 1:].tolist() == [2_003, 2_004, -1]
    assert lists.scores[1, 3] == -np.inf
    assert lists.chunks[2].tolist() == [4_000, -1, -1, -1]


def test_lists_do_not_depend_on_the_other_queries_or_their_order() -> None:
    together = sample_lists(
        ranked([60, 70, 80], [5, 6, 7]),
        m=5,
        lists_per_query=3,
        seed=2,
    )
    alone = sample_lists(
        ranked([80, 70], [7, 6]),
        m=5,
        lists_per_query=3,
        seed=2,
    )
    assert (alone.chunks[:3] == together.chunks[6:]).all()
    assert (alone.chunks[3:] == together.chunks[3:6]).all()


def test_the_seed_changes_the_lists() -> None:
    lists = ranked([900], [5])
    first, again, other = (sample_lists(lists, 9, 4, seed).chunks for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_no_queries_give_no_lists() -> None:
    assert sample_lists(ranked([], []), m=9).chunks.shape == (0, 9)
