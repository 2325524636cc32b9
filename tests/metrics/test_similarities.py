"""Bootstrapped accuracy, COE and ROE, and the threshold τ(ψ), by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.metrics.bootstrap import Sampling, bootstrapped_mean, interval
from engine.metrics.similarities import choose_threshold, overlap, thresholds


def test_samples_are_drawn_from_all_rows_by_seed() -> None:
    rows = Sampling(samples=50, size=2, seed=1).draw(3)
    assert rows.shape == (50, 2)
    assert set(rows.ravel().tolist()) == {0, 1, 2}
    assert Sampling(samples=50, size=2, seed=1).draw(3).tolist() == rows.tolist()
    assert Sampling(samples=50, size=2, seed=2).draw(3).tolist() != rows.tolist()
    with pytest.raises(ValueError, match="cannot be drawn from 0"):
        Sampling().draw(0)


def test_the_percentile_interval_by_hand() -> None:
    estimate = interval(np.arange(41.0), np.arange(41.0))  # 2.5 % of 40 steps is one step
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((20.0, 1.0, 39.0))


def test_accuracy_has_the_binomial_spread_of_its_sample_size() -> None:
    estimate = bootstrapped_mean([1.0] * 300 + [0.0] * 100, Sampling(samples=4_000, seed=3))
    assert estimate.value == pytest.approx(0.75, abs=0.005)
    spread = 1.96 * np.sqrt(0.75 * 0.25 / 100)
    assert (estimate.low, estimate.high) == pytest.approx((0.75 - spread, 0.75 + spread), abs=0.015)
    wider = bootstrapped_mean([1.0] * 300 + [0.0] * 100, Sampling(samples=4_000, size=25, seed=3))
    assert wider.high - wider.low == pytest.approx(2 * (estimate.high - estimate.low), rel=0.1)


def test_samples_are_never_larger_than_the_set_of_queries() -> None:
    sample = Sampling(samples=50, size=20, seed=1).draw(3)
    assert sample.tolist() == Sampling(samples=50, size=3, seed=1).draw(3).tolist()
    assert sample.shape == (50, 3)
    estimate = bootstrapped_mean(
        [1.0] * 12 + [0.0] * 4, Sampling(samples=4_000, seed=3)
    )  # of 16, not of 100
    spread = 1.96 * np.sqrt(0.75 * 0.25 / 16)
    assert (estimate.low, estimate.high) == pytest.approx((0.75 - spread, 0.75 + spread), abs=0.04)


def test_accuracy_of_queries_that_agree_has_no_width() -> None:
    estimate = bootstrapped_mean([1, 1, 1])
    assert (estimate.value, estimate.low, estimate.high) == (1.0, 1.0, 1.0)


def test_overlap_by_hand_where_every_sample_is_the_same() -> None:
    # Of every query the top three are 0.9, 0.7, 0.5: θ at the 50th percentile is 0.7 in each
    # sample.
    top = [[0.9, 0.7, 0.5]] * 4
    coe, roe = overlap(
        top,
        [0.8] * 4,
        [[0.7]] * 4,
        Sampling(psi=50),
    )
    assert (coe.value, roe.value) == (1.0, 0.0)  # 0.7 is not above 0.7
    assert overlap(top, [0.8] * 4, [[0.7]] * 4, Sampling(psi=0))[1].value == 1.0
    assert overlap(top, [0.85] * 4, [[0.1]] * 4, Sampling(psi=100))[0].value == 0.0


def test_overlap_is_of_all_queries_whatever_the_sample() -> None:
    coe, roe = overlap(
        [[0.6]] * 8,
        [0.7] * 6 + [0.5] * 2,
        [[0.7, 0.1]] + [[0.1, 0.1]] * 7,
    )
    assert (coe.value, coe.low, coe.high) == (0.75, 0.75, 0.75)  # θ is 0.6 in every sample
    assert roe.value == 1 / 16  # one of all 16 random chunks
    # Samples of one: θ is 0.2 or 0.6, with one half or none of the correct similarities above it,
    # each half of the time.
    coe, roe = overlap(
        [[0.2], [0.6]], [0.3, 0.1], [[0.1], [0.6]], Sampling(samples=4_000, size=1, psi=50, seed=2)
    )
    assert (coe.value, coe.low, coe.high) == pytest.approx((0.25, 0.0, 0.5), abs=0.01)
    assert (roe.value, roe.high) == pytest.approx((0.25, 0.5), abs=0.01)  # 0.6 is not above 0.6


def test_thresholds_are_percentiles_of_the_samples_least_similarity() -> None:
    top = np.array([[0.9, 0.8], [0.6, 0.4], [0.7, 0.5]])
    low, middle, high = thresholds(
        top,
        [0, 50, 100],
        Sampling(samples=2_000, size=2),
    )
    # γ is 0.4 in 5 of 9 samples of two, 0.5 in 3 of 9, 0.8 in 1 of 9.
    assert (low, middle, high) == pytest.approx((0.4, 0.4, 0.8))
    assert thresholds(top, [70], Sampling(samples=2_000, size=2))[0] == pytest.approx(0.5)


def test_the_highest_threshold_that_costs_nothing_is_chosen() -> None:
    # Half of the queries end at 0.2, half at 0.5, where nothing is correct; the answers lie at 0.9.
    top = np.array([[0.9, 0.2], [0.9, 0.5]] * 50)
    right = np.array([[1, 0]] * 100)
    choice = choose_threshold(
        top,
        right,
        Sampling(size=1),
        resamples=500,
    )
    assert (choice.psi, choice.similarity) == (100.0, 0.5)
    assert (choice.accuracy, choice.unthresholded, choice.hidden) == (1.0, 1.0, 0.25)


def test_a_threshold_that_loses_answers_is_not_chosen() -> None:
    # Of every fifth query the answer is the weakest hit, at 0.2; all others end at 0.6.
    top = np.array([[0.9, 0.2]] + [[0.9, 0.6]] * 4)
    right = np.array([[0, 1]] + [[1, 0]] * 4)
    choice = choose_threshold(
        np.tile(top, (20, 1)), np.tile(right, (20, 1)), Sampling(size=1), resamples=500
    )
    assert (choice.similarity, choice.hidden) == (0.2, 0.0)
    assert choice.accuracy == choice.unthresholded == 1.0
    assert 0 < choice.psi < 100


def test_a_loss_that_is_not_shown_is_accepted() -> None:
    # One query in a hundred loses its answer: resamples without it are common.
    top = np.array([[0.9, 0.2]] + [[0.9, 0.6]] * 99)
    right = np.array([[0, 1]] + [[1, 0]] * 99)
    choice = choose_threshold(
        top,
        right,
        Sampling(size=1),
        resamples=500,
    )
    assert choice.similarity == 0.6
    assert (choice.accuracy, choice.unthresholded) == (0.99, 1.0)


def test_five_losses_of_five_are_no_licence() -> None:
    # Fisher's p of five that agree is 2 · ½⁵ = 6 %; a resample of 100 has none of them once in 170
    # times.
    top = np.array([[0.9, 0.2]] * 5 + [[0.9, 0.6]] * 95)
    right = np.array([[0, 1]] * 5 + [[1, 0]] * 95)
    choice = choose_threshold(
        top,
        right,
        Sampling(size=1),
        resamples=2_000,
    )
    assert (choice.similarity, choice.accuracy) == (0.2, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: overlap([[0.1]], [0.1, 0.2], [[0.1]]),
        lambda: overlap([[0.1]], [float("nan")], [[0.1]]),
        lambda: overlap([[0.1]], [0.1], [0.1]),
        lambda: thresholds([[float("-inf")]]),
        lambda: choose_threshold([[0.1]], [[1, 0]]),
        lambda: bootstrapped_mean([[1.0]]),
        lambda: bootstrapped_mean([]),
    ],
)
def test_misfits_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"fit|NaN|finite|shape|cannot be drawn"):
        wrong()
