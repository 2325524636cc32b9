"""How many training queries BM25 solves."""

from __future__ import annotations

import pytest

from engine.ranking.stage import TELLING, found_first
from engine.records import Query, Split


def _query(number: int, split: Split = "train") -> Query:
    return Query("text", "question", 7, 1, "", split, number)


FIRST, SECOND, ABSENT, NOTHING = ([7, 8], [2.0, 1.0]), ([8, 7], [2.0, 1.0]), ([8, 9], [2.0, 1.0]), ([], [])


def test_the_share_of_training_queries_whose_chunk_stands_first() -> None:
    lists = [*[FIRST] * 66, *[SECOND] * 20, *[ABSENT] * 10, *[NOTHING] * 4]
    assert found_first([_query(number) for number in range(100)], lists) == pytest.approx(0.66)


def test_held_out_queries_do_not_count() -> None:
    queries = [*map(_query, range(100)), *(_query(number, "heldout") for number in range(100, 150))]
    assert found_first(queries, [*[FIRST] * 100, *[SECOND] * 50]) == 1.0


def test_too_few_queries_do_not_tell() -> None:
    queries = [_query(number) for number in range(TELLING - 1)]
    assert found_first(queries, [FIRST] * (TELLING - 1)) is None
    assert found_first([], []) is None
