"""The partition's bounds as METHODS.md lists them, and its properties for every k and m."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ranking.sampling import partition_ranks


@pytest.mark.parametrize(
    ("k", "m", "scheme", "bounds"),
    [
        (1000, 9, "fine-to-coarse", [0, 3, 6, 14, 30, 61, 124, 249, 499, 1000]),
        (4000, 6, "fine-to-coarse", [0, 3, 131, 389, 905, 1937, 4000]),
        (1000, 6, "uniform", [0, 3, 202, 401, 601, 800, 1000]),
        (20, 9, "fine-to-coarse", [0, 3, 4, 5, 6, 7, 8, 9, 11, 20]),
        (11, 9, "fine-to-coarse", [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (6, 9, "uniform", [0, 3, 4, 5, 6]),
        (4, 9, "fine-to-coarse", [0, 3, 4]),
        (3, 9, "fine-to-coarse", [0, 3]),
        (1, 2, "uniform", [0, 1]),
    ],
)
def test_bounds_by_hand(k, m, scheme, bounds) -> None:
    assert partition_ranks(k, m, scheme) == tuple(itertools.pairwise(bounds))


@given(st.integers(1, 20_000), st.integers(2, 70), st.sampled_from(["fine-to-coarse", "uniform"]))
def test_intervals_cover_all_ranks_in_order_and_none_is_empty(k, m, scheme) -> None:
    intervals = partition_ranks(k, m, scheme)
    assert intervals[0] == (0, min(3, k))
    assert intervals[-1][1] == k
    assert all(low < high for low, high in intervals)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(intervals))
    assert len(intervals) == (1 if k <= 3 else min(m, k - 2))


@given(st.integers(4, 20_000), st.integers(2, 30))
def test_fine_to_coarse_never_shrinks_and_uniform_stays_even(k, m) -> None:
    fine = [high - low for low, high in partition_ranks(k, m)[1:]]
    even = [high - low for low, high in partition_ranks(k, m, "uniform")[1:]]
    assert max(even) - min(even) <= 1
    # Flooring moves a bound by less than 1, hence a length by less than 1, hence this difference by
    # less than 3.
    if k - 3 >= 2 ** (m - 1) - 1:
        assert all(abs(after - 2 * before) <= 3 for before, after in itertools.pairwise(fine))
