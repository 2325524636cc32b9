"""Bootstrap intervals: exact small cases, the normal approximation as oracle, coverage, and
refusals.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from engine.core.figures import Interval
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, interval
from engine.metrics.differences import paired_difference


def mean_interval(
    values,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Interval:
    column = np.asarray(values)[:, None]
    return interval(column[:, 0], bootstrap_means(column, samples, seed)[:, 0])


def test_means_of_two_rows_have_the_binomial_distribution() -> None:
    means = bootstrap_means([[0.0], [1.0]], samples=40_000, seed=3)[:, 0]
    values, counts = np.unique(means, return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert counts / 40_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.01)


def test_the_interval_agrees_with_the_normal_approximation() -> None:
    values = np.random.default_rng(0).random(2_000)
    estimate = mean_interval(values, seed=1)
    spread = 1.96 * values.std() / np.sqrt(2_000)
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.low, estimate.high) == pytest.approx(
        (values.mean() - spread, values.mean() + spread), abs=1e-3
    )
    assert estimate.percent().high == pytest.approx(100 * estimate.high)


def test_intervals_cover_the_true_mean_about_95_times_in_100() -> None:
    rng = np.random.default_rng(5)
    intervals = [mean_interval(rng.random(80), samples=1_000, seed=run) for run in range(300)]
    covered = np.mean([estimate.low <= 0.5 <= estimate.high for estimate in intervals])
    assert 0.91 <= covered <= 0.985


def test_all_columns_share_their_resamples() -> None:
    column = np.random.default_rng(2).random(50)
    means = bootstrap_means(
        np.stack([column, 1 - column], axis=1),
        samples=500,
        seed=4,
    )
    assert means.sum(axis=1) == pytest.approx(np.ones(500))
    assert means[:, 0] == pytest.approx(bootstrap_means(column[:, None], samples=500, seed=4)[:, 0])


def test_blocks_do_not_show() -> None:
    values = np.random.default_rng(2).random((40, 2))
    whole = bootstrap_means(
        values,
        samples=99,
        seed=1,
    )
    assert bootstrap_means(values, samples=99, seed=1, block=7 * 40) == pytest.approx(whole)


def test_pairing_shows_a_small_steady_gain_that_the_intervals_hide() -> None:
    base = np.random.default_rng(1).random(300)
    better = base + 0.01
    apart = mean_interval(better, samples=2_000).low < mean_interval(base, samples=2_000).high
    gain = paired_difference(
        better,
        base,
        samples=2_000,
    )
    loss = paired_difference(
        base,
        better,
        samples=2_000,
    )
    assert apart
    assert (gain.verdict, loss.verdict) == ("better", "worse")
    assert gain.value == pytest.approx(0.01)
    assert (gain.p_better, loss.p_better) == (1.0, 0.0)


def test_noise_and_equal_systems_show_no_difference() -> None:
    rng = np.random.default_rng(9)
    noise = paired_difference(
        rng.random(200),
        rng.random(200),
        samples=2_000,
    )
    same = paired_difference(
        [0.5] * 30,
        [0.5] * 30,
        samples=100,
    )
    assert noise.verdict == same.verdict == "no difference shown"
    assert (same.low, same.high, same.p_better) == (0.0, 0.0, 0.5)


def test_five_queries_are_too_few_for_a_verdict() -> None:
    assert paired_difference([1.0] * 5, [0.0] * 5, samples=100).verdict == "no difference shown"
    assert paired_difference([1.0] * 6, [0.0] * 6, samples=100).verdict == "better"


@pytest.mark.parametrize("queries", [6, 60, 2_255])
def test_few_queries_that_differ_give_no_verdict_however_many_do_not(queries: int) -> None:
    def changed(count: int):
        values = np.zeros(queries)
        values[:count] = 1.0
        return paired_difference(
            values,
            np.zeros(queries),
            samples=4_000,
        )

    four = changed(4)  # all tosses that leave the four alike: 2 · ½⁴ = 12.5 %
    assert four.low > 0 or queries == 6
    assert (four.verdict, four.p_value) == ("no difference shown", pytest.approx(0.125, abs=0.02))
    six = changed(6)
    assert (six.verdict, six.p_value) == ("better", pytest.approx(2 / 64, abs=0.01))


@pytest.mark.parametrize("queries", [10, 20])
def test_without_a_difference_at_most_5_in_100_tests_show_one(queries: int) -> None:
    gaps = np.random.default_rng(7).normal(size=(600, queries))
    differences = [
        paired_difference(gap, np.zeros(queries), samples=1_100, seed=run)
        for run, gap in enumerate(gaps)
    ]
    assert (
        np.mean([difference.verdict != "no difference shown" for difference in differences]) < 0.068
    )  # 5 % and two standard errors
    assert (
        np.mean([difference.low > 0 or difference.high < 0 for difference in differences]) > 0.068
    )  # what the interval alone would say


def test_the_seed_decides() -> None:
    values = np.random.default_rng(0).random(100)
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1)
    assert mean_interval(values, seed=1) != mean_interval(values, seed=2)


@pytest.mark.parametrize("values", [[], [0.1, float("nan")], [float("inf")], [[[0.1]]]])
def test_what_cannot_be_resampled_is_refused(values) -> None:
    with pytest.raises(ValueError, match=r"resample|NaN"):
        mean_interval(values)


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        paired_difference([1, 2], [1, 2, 3])


def test_memory_stays_bounded_at_full_size() -> None:
    values = np.random.default_rng(0).random((2_255, 35))
    tracemalloc.start()
    bootstrap_means(values, samples=2_500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_clusters_are_drawn_whole() -> None:
    values = np.array([[0.0], [0.0], [0.0], [1.0]])
    clusters = [5, 5, 5, 2]
    means = bootstrap_means(values, samples=40_000, seed=3, clusters=clusters)[:, 0]
    # of two clusters: twice the first (1/4), both (1/2: one of four queries), twice the second
    # (1/4)
    distinct, counts = np.unique(means, return_counts=True)
    assert distinct.tolist() == [0.0, 0.25, 1.0]
    assert counts / len(means) == pytest.approx([0.25, 0.5, 0.25], abs=0.01)
    alone = bootstrap_means(
        values,
        samples=50,
        seed=3,
        clusters=[1] * 4,
    )
    assert (
        alone.tolist() == bootstrap_means(values, samples=50, seed=3).tolist()
    )  # nothing is known of other documents
    with pytest.raises(ValueError, match="3 clusters of 4"):
        bootstrap_means(values, clusters=[1, 2, 3])
