from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.encoders.transformer import length_batches


@pytest.mark.parametrize(
    ("lengths", "budget", "most", "batches"),
    [
        # 5 × 2 = 10 fits; the 1-token text is shorter than three quarters of 5, and the batch is
        # filled: it stands apart.
        pytest.param([1, 5, 4, 5], 10, 8, [[1, 3], [2], [0]], id="longest-first-under-the-budget"),
        pytest.param([7] * 5, 1000, 2, [[0, 1], [2, 3], [4]], id="most-sequences"),
        pytest.param([50, 3, 3], 10, 8, [[0], [1, 2]], id="longer-than-the-budget-stands-alone"),
        pytest.param([8, 1, 1], 256, 32, [[0, 1, 2]], id="small-ones-are-not-split-for-padding"),
        pytest.param([], 10, 8, [], id="none"),
    ],
)
def test_batches(
    lengths: list[int],
    budget: int,
    most: int,
    batches: list[list[int]],
) -> None:
    assert [batch.tolist() for batch in length_batches(lengths, budget, most)] == batches


@given(
    lengths=st.lists(st.integers(min_value=0, max_value=600), max_size=300),
    budget=st.integers(min_value=1, max_value=5000),
    most=st.integers(min_value=1, max_value=70),
)
def test_each_index_once_within_limits(
    lengths: list[int],
    budget: int,
    most: int,
) -> None:
    batches = length_batches(lengths, budget, most)
    assert sorted(index for batch in batches for index in batch.tolist()) == list(
        range(len(lengths))
    )
    for batch in batches:
        longest = max(1, max(lengths[index] for index in batch))
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or len(batch) * longest <= budget
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)


@pytest.mark.parametrize("budget", [2048, 65536])
@given(seed=st.integers(min_value=0, max_value=2**32 - 1))
def test_padding_share_is_small(budget: int, seed: int) -> None:
    lengths = np.clip(np.random.default_rng(seed).lognormal(4.5, 0.8, 2000), 3, 256).astype(int)
    padded = sum(
        len(batch) * int(lengths[batch].max()) for batch in length_batches(lengths, budget, 1024)
    )
    assert 1 - lengths.sum() / padded < (0.03 if budget == 2048 else 0.16)
