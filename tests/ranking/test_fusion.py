"""Fusion against hand-computed sums and a plain dictionary implementation as oracle."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ranking.fusion import convex, cross_score, rrf

RANKING = st.lists(
    st.integers(0, 30),
    unique=True,
    max_size=15,
)


def test_rrf_by_hand() -> None:
    ids, scores = rrf([([7, 8], [9.0, 3.0]), ([8, 5], [0.4, 0.1])])
    assert ids.tolist() == [8, 7, 5]
    assert scores == pytest.approx([1 / 42 + 1 / 41, 1 / 41, 1 / 42])


def test_rrf_ties_go_to_the_smaller_id_whatever_the_order_of_rankers() -> None:
    first = ([3, 9, 2], [3.0, 2.0, 1.0])
    second = ([9, 3, 4], [3.0, 2.0, 1.0])
    assert rrf([first, second])[0].tolist() == [3, 9, 2, 4]
    assert rrf([second, first])[0].tolist() == [3, 9, 2, 4]


def test_convex_by_hand() -> None:
    semantic = ([1, 2, 3], [0.9, 0.7, 0.5])  # min-max: 1, .5, 0
    lexical = ([2, 4], [12.0, 8.0])  # min-max: 1, 0
    ids, scores = convex(
        semantic,
        lexical,
        weight=0.6,
    )
    assert ids.tolist() == [2, 1, 3, 4]
    assert scores == pytest.approx([0.6 * 0.5 + 0.4, 0.6, 0, 0])


def test_convex_at_its_ends_is_one_ranker() -> None:
    semantic = ([5, 6, 7], [0.3, 0.2, 0.1])
    lexical = ([7, 6, 5], [3.0, 2.0, 1.0])
    assert convex(semantic, lexical, 1.0)[0].tolist() == [5, 6, 7]
    assert convex(semantic, lexical, 0.0)[0].tolist() == [7, 6, 5]


def test_each_ranker_judges_the_others_chunks() -> None:
    semantic = ([1, 2], [0.9, 0.7])
    lexical = ([2, 4], [12.0, 8.0])
    semantic = cross_score(
        semantic,
        [2, 4],
        [0.7, 0.8],
    )
    lexical = cross_score(
        lexical,
        [1, 2],
        [0.0, 12.0],
    )
    assert semantic[0].tolist() == [1, 2, 4]
    assert lexical[0].tolist() == [2, 4, 1]
    assert lexical[1].tolist() == [12, 8, 0]
    ids, scores = convex(
        semantic, lexical, weight=0.6
    )  # min-max: 1 → 1, 2 → 0, 4 → ½; 1 → 0, 2 → 1, 4 → ⅔
    assert ids.tolist() == [1, 4, 2]
    assert scores == pytest.approx([0.6, 0.6 * 0.5 + 0.4 * 2 / 3, 0.4])


def test_completing_many_queries_leaves_padding_and_empty_rankings_alone() -> None:
    ids, scores = cross_score(
        ([[1, 2], [5, -1], [-1, -1]], np.ones((3, 2))), [[2, 3], [-1, 6], [7, 8]], np.zeros((3, 2))
    )
    assert ids.tolist() == [[1, 2, -1, 3], [5, -1, -1, 6], [-1, -1, -1, -1]]
    assert np.isneginf(scores[ids < 0]).all()
    assert scores[ids >= 0].tolist() == [1, 1, 0, 1, 0]
    none, _ = cross_score(
        ([], []),
        [3, 4],
        [1.0, 0.5],
    )
    assert none.tolist() == []


@given(RANKING, RANKING)
def test_after_completing_both_rankers_hold_the_same_chunks(one, other) -> None:
    score = {item: float(item % 7) for item in range(31)}
    left = cross_score(
        (one, [score[i] for i in one]),
        other,
        [score[i] for i in other],
    )
    assert left[0].tolist() == ([*one, *(i for i in other if i not in one)] if one else [])
    assert left[1].tolist() == [score[i] for i in left[0].tolist()]


def test_equal_scores_all_count_fully() -> None:
    ids, scores = convex(
        ([4, 2], [0.5, 0.5]),
        ([9], [7.0]),
        0.7,
    )
    assert ids.tolist() == [2, 4, 9]
    assert scores == pytest.approx([0.7, 0.7, 0.3])


def test_padding_and_empty_lists_contribute_nothing() -> None:
    ids, scores = rrf(
        [([[1, -1], [-1, -1]], np.zeros((2, 2))), ([[2], [-1]], np.zeros((2, 1)))], depth=3
    )
    assert ids.tolist() == [[1, 2, -1], [-1, -1, -1]]
    assert scores[0, :2] == pytest.approx([1 / 41, 1 / 41])
    assert np.isneginf(scores[1]).all()
    empty = ([], [])
    assert rrf([empty, empty])[0].tolist() == []
    assert convex(empty, ([3], [1.0]), 0.5)[0].tolist() == [3]


@given(st.lists(st.tuples(RANKING, RANKING, RANKING), min_size=1, max_size=6), st.integers(1, 20))
def test_many_queries_at_once_agree_with_a_dictionary(queries, depth) -> None:
    rankers = []
    for number in range(3):
        lists = [query[number] for query in queries]
        width = max(len(items) for items in lists)
        padded = np.array(
            [items + [-1] * (width - len(items)) for items in lists], dtype=np.int64
        ).reshape(len(lists), width)
        rankers.append((padded, np.zeros(padded.shape)))
    ids, scores = rrf(rankers, depth)
    for row, query in enumerate(queries):
        expected: dict[int, float] = defaultdict(float)
        for items in query:
            for rank, item in enumerate(items, start=1):
                expected[item] += 1 / (40 + rank)
        best = sorted(expected, key=lambda item: (-round(expected[item], 12), item))[:depth]
        assert ids[row][ids[row] >= 0].tolist() == best
        assert scores[row, : len(best)] == pytest.approx(
            [expected[item] for item in best], abs=1e-9
        )


def test_blocks_do_not_show() -> None:
    rng = np.random.default_rng(0)
    one, two = (np.stack([rng.permutation(40)[:20] for _ in range(23)]) for _ in range(2))
    scores = -np.sort(-rng.random((23, 20)), axis=1)
    whole = convex(
        (one, scores),
        (two, scores),
        0.4,
        depth=15,
    )
    parts = convex(
        (one, scores),
        (two, scores),
        0.4,
        depth=15,
        block=100,
    )
    assert (whole[0] == parts[0]).all()
    assert (whole[1] == parts[1]).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: rrf([]),
        lambda: rrf([([1, 1], [2.0, 1.0])]),
        lambda: rrf([([1, 2], [2.0])]),
        lambda: rrf([([1], [float("nan")])]),
        lambda: rrf([([1], [1.0])], depth=0),
        lambda: convex(([1], [1.0]), ([1], [1.0]), 1.5),
        lambda: cross_score(([[1], [2]], [[1.0], [1.0]]), [[1]], [[1.0]]),
        lambda: cross_score(([1], [1.0]), [2, 2], [1.0, 1.0]),
        lambda: convex(([[1], [2]], [[1.0], [1.0]]), ([[1]], [[1.0]]), 0.5),
    ],
)
def test_what_cannot_be_fused_is_refused(call) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        call()
