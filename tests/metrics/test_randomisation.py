"""Fisher's randomisation test: exact small cases, scipy as oracle, its level under the null
hypothesis; and power.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine.metrics import randomisation
from engine.metrics.bootstrap import bootstrap_means
from engine.metrics.differences import add_needed, paired_difference, queries_needed, spread
from engine.metrics.randomisation import max_t_p, randomisation_p


def test_small_cases_are_exact() -> None:
    # Of the 8 sign patterns of (1, 1, 1) two reach a sum of 3 in size; of (2, 1, 1) six reach 2.
    p_values = randomisation_p([[1.0, 2.0, 0.0], [1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    assert p_values.tolist() == [2 / 8, 6 / 8, 1.0]
    six = randomisation_p(np.ones((6, 1)))
    assert six.tolist() == [2 / 64]


def test_rounding_does_not_break_ties() -> None:
    # 0.1 + 0.2 − 0.3 is not 0 in floating point, nor equal to its mirror image's rounding.
    assert randomisation_p([[0.1], [0.2], [-0.3]]).tolist() == [1.0]
    assert randomisation_p([[0.3], [0.2], [0.1]]).tolist() == [2 / 8]


def test_sampled_p_agrees_with_the_exact_one_of_scipy() -> None:
    from scipy.stats import permutation_test

    gap = np.random.default_rng(4).normal(
        0.25,
        1,
        size=15,
    )
    exact = permutation_test(
        (gap,), np.mean, permutation_type="samples", n_resamples=2**15, vectorized=True
    ).pvalue
    whole = randomisation_p(gap[:, None], samples=2**15)[0]
    sampled = randomisation_p(gap[:, None], samples=20_000, seed=1)[0]
    assert whole == pytest.approx(exact, abs=1e-12)
    assert sampled == pytest.approx(exact, abs=0.02)
    assert sampled != randomisation_p(gap[:, None], samples=20_000, seed=2)[0]
    assert sampled == randomisation_p(gap[:, None], samples=20_000, seed=1)[0]


def test_p_is_never_zero_where_it_is_sampled_and_the_sign_does_not_matter() -> None:
    gap = np.full((40, 1), 0.5)
    assert (
        randomisation_p(gap, samples=999).tolist()
        == randomisation_p(-gap, samples=999).tolist()
        == [1 / 1_000]
    )


def test_columns_are_tested_with_the_same_tosses_and_blocks_do_not_show() -> None:
    from scipy.stats import permutation_test

    gaps = np.random.default_rng(0).normal(
        0.1,
        1,
        size=(50, 3),
    )
    whole = randomisation_p(
        gaps,
        samples=500,
        seed=3,
    )
    assert randomisation_p(gaps[:, 1:2], samples=500, seed=3)[0] == whole[1]
    many = 2 * randomisation.BLOCK // 50 + 7
    assert randomisation_p(gaps, samples=many, seed=3) == pytest.approx(whole, abs=0.06)
    small = gaps[:8]
    assert randomisation_p(small).tolist() == pytest.approx(
        [
            permutation_test((c,), np.mean, permutation_type="samples", vectorized=True).pvalue
            for c in small.T
        ]
    )


def test_equal_systems_are_called_different_one_time_in_twenty() -> None:
    rng = np.random.default_rng(8)
    hits = np.mean(randomisation_p(rng.normal(size=(40, 2_000)), samples=1_000, seed=1) <= 0.05)
    assert 0.035 <= hits <= 0.065


@pytest.mark.parametrize("gaps", [np.empty((0, 1)), [1.0, 2.0], [[float("nan")]]])
def test_what_cannot_be_randomised_is_refused(gaps) -> None:
    with pytest.raises(ValueError, match=r"resample|NaN"):
        randomisation_p(gaps)


def test_the_queries_needed_by_hand() -> None:
    # Differences 3, −1: mean 1, standard deviation √8; (1.96 + 0.8416)² · 8 = 62.8.
    assert queries_needed([3.0, -1.0]) == 63
    assert queries_needed([-3.0, 1.0]) == 63
    assert queries_needed([1.0, 1.0, 1.0]) == 6


def test_no_number_of_queries_is_given_without_a_difference() -> None:
    assert queries_needed([1.0, -1.0]) is None
    assert queries_needed([0.0] * 9) is None
    assert queries_needed([1.0]) is None
    assert queries_needed([]) is None


@pytest.mark.parametrize(("better", "of"), [(5, 7), (5, 8), (4, 6)])
def test_an_estimate_of_queries_that_did_not_show_it_is_left_out(better: int, of: int) -> None:
    gap = np.repeat([1.0, 0.0], [better, of - better])
    difference = paired_difference(
        gap,
        np.zeros(of),
        samples=2_000,
    )
    assert (difference.verdict, difference.p_value) == ("no difference shown", 2 / 2**better)
    assert difference.low > 0
    assert add_needed(difference, gap).needed is None, "too few to say how much they vary"
    assert queries_needed(gap) == 6
    assert add_needed(difference, gap, min_queries=of).needed is None


def test_queries_about_few_documents_are_not_said_to_need_one_more() -> None:
    clusters = np.arange(100) % 5
    gap = np.full(100, 0.5)
    difference = paired_difference(
        gap,
        np.zeros(100),
        samples=100,
        clusters=clusters,
    )
    assert (difference.verdict, difference.p_value) == ("no difference shown", 2 / 2**5)
    assert queries_needed(gap, clusters) == 6
    assert add_needed(difference, gap, clusters).needed is None


def test_so_many_queries_show_the_difference_four_times_in_five() -> None:
    rng = np.random.default_rng(6)
    needed = queries_needed(rng.normal(0.3, 1.0, size=200_000))
    assert needed == pytest.approx(87, abs=3)
    detected = [
        paired_difference(
            rng.normal(0.3, 1.0, needed), np.zeros(needed), samples=500, seed=run
        ).verdict
        == "better"
        for run in range(400)
    ]
    assert np.mean(detected) == pytest.approx(0.8, abs=0.06)


def test_each_of_several_ways_is_compared_with_the_best_of_every_toss() -> None:
    ones = np.ones(3)
    turned = np.array([1.0, 1.0, -1.0])
    assert max_t_p(ones[:, None]) == 1 / 8  # one-sided: of 8 tosses one reaches a sum of 3
    assert max_t_p(np.stack([ones, ones], 1)).tolist() == [
        1 / 8,
        1 / 8,
    ]  # the same way twice is no second chance
    # (+, +, +) and (+, +, −) reach 3 by one of both; a sum of 1 is reached by all but (−, −, ·)
    assert max_t_p(np.stack([ones, turned], 1)).tolist() == [2 / 8, 6 / 8]
    assert max_t_p(-ones[:, None]) == 1.0
    assert max_t_p(np.zeros((3, 2))).tolist() == [1.0, 1.0]


def test_the_unit_of_a_way_does_not_matter_and_a_sampled_p_is_never_zero() -> None:
    gaps = np.random.default_rng(5).normal(
        0.2,
        1,
        size=(80, 4),
    )
    assert max_t_p(gaps * [1, 10, 100, 0.1]) == pytest.approx(max_t_p(gaps))
    assert max_t_p(np.full((70, 2), 0.5), samples=999).tolist() == [1 / 1_000, 1 / 1_000]
    with pytest.raises(ValueError, match="nothing to resample"):
        max_t_p(np.zeros((0, 2)))


def test_among_equals_the_best_of_nine_is_called_better_one_time_in_twenty() -> None:
    """Uncorrected, the best of nine that go apart would be called better about four times in
    ten.
    """
    rng = np.random.default_rng(9)
    hits = 0
    single = 0
    for seed in range(400):
        gaps = rng.normal(size=(60, 9))
        hits += max_t_p(gaps, samples=400, seed=seed).min() <= 0.05
        single += (
            min(max_t_p(gaps[:, [column]], samples=400, seed=seed)[0] for column in range(9))
            <= 0.05
        )
    assert 8 <= hits <= 32
    assert single >= 100


def test_queries_of_one_document_are_tossed_together() -> None:
    gaps = np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    pairs = [
        7,
        3,
        7,
        3,
        9,
        9,
    ]
    # three coins: of 8 tosses two have a sum as far from 0 as all heads, and one reaches it
    assert randomisation_p(gaps, clusters=pairs).tolist() == [2 / 8]
    assert max_t_p(gaps, clusters=pairs).tolist() == [1 / 8]
    assert randomisation_p(gaps, clusters=[1] * 6).tolist() == [1.0]
    assert (
        paired_difference(gaps[:, 0], np.zeros(6), samples=100, clusters=pairs).verdict
        == "no difference shown"
    )


def test_the_design_effect_by_hand() -> None:
    # gaps less their mean 0: ±1; sums of the clusters 2, -2, 0, 0: s² = 4/3 · 8 / 8
    gap = np.array([1.0, 1, -1, -1, 1, -1, 1, -1])
    assert spread(gap, [1, 1, 2, 2, 3, 3, 4, 4]) == pytest.approx(np.sqrt(4 / 3))
    assert spread(gap, [1, 1, 1, 1, 2, 2, 2, 2]) == gap.std(
        ddof=1
    )  # never below what independent queries have
    # twice each: half as much is known
    single = np.random.default_rng(5).normal(0.3, 1.0, 400)
    twice = np.repeat(single, 2)
    clusters = np.repeat(np.arange(400), 2)
    assert queries_needed(twice, clusters=clusters) == pytest.approx(
        2 * queries_needed(single), rel=0.01
    )
    small = np.array([0.5, -0.4] * 20)
    difference = paired_difference(
        small,
        np.zeros(40),
        samples=100,
    )
    assert add_needed(difference, small, np.arange(40) % 2 + 1).needed == queries_needed(
        small, clusters=np.arange(40) % 2
    )


def test_where_each_document_has_one_query_nothing_changes() -> None:
    gaps = np.random.default_rng(2).normal(
        0.1,
        1.0,
        (57, 3),
    )
    clusters = np.random.default_rng(3).permutation(57)
    for test in (randomisation_p, max_t_p, bootstrap_means):
        assert test(gaps, 500, 4, clusters=clusters).tolist() == test(gaps, 500, 4).tolist()
    column = gaps[:, 0].copy()
    assert queries_needed(column, clusters=clusters) == queries_needed(column)
    assert spread(column, clusters) == spread(column) == column.std(ddof=1)
    none = np.zeros(57)
    assert paired_difference(column, none, 500, clusters=clusters) == paired_difference(
        column, none, 500
    )
