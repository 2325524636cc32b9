"""Rank correlation by hand and against scipy's, and its difference between two systems."""

from __future__ import annotations

from statistics import correlation

import numpy as np
import pytest

from engine.metrics.differences import add_needed_pairs
from engine.metrics.spearman import spearman, spearman_difference, spearman_interval


def test_correlation_by_hand() -> None:
    # d = (0, 1, −1, 0): 1 − 6·2 / (4·15) = 0.8
    assert spearman([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [9, 5, 1]) == pytest.approx(-1.0)
    assert spearman([1, 2, 3], [2, 2, 2]) == 0.0


def test_the_evaluation_papers_table_3_follows_from_its_table_2() -> None:
    sciq = {
        "COE": [96.98, 95.48, 97.79, 98.15, 97.2, 94.42, 98.18, 98.24],
        "ROE": [4.14, 1.99, 3.72, 3.25, 6.85, 2.21, 7.4, 6.28],
    }
    accuracy = [
        92.7,
        92.08,
        94.45,
        95.5,
        91.69,
        91.03,
        94.37,
        94,
    ]
    assert [round(correlation(scores, accuracy), 3) for scores in sciq.values()] == [0.838, 0.232]
    assert spearman(sciq["COE"], accuracy) == pytest.approx(5 / 7)
    pubmed = [
        96.2,
        93.8,
        99.5,
        98.95,
        97.7,
        96.94,
        99.28,
        99,
    ]
    accuracy = [
        94,
        84.3,
        98.51,
        97.83,
        95.42,
        91.87,
        97.53,
        97.5,
    ]
    assert correlation(pubmed, accuracy) == pytest.approx(0.961, abs=5e-4)


def test_it_agrees_with_scipy_where_values_are_equal_too() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    for _ in range(50):
        first, other = rng.integers(
            0,
            9,
            size=(2, 40),
        )
        assert spearman(first, other) == pytest.approx(stats.spearmanr(first, other).statistic)


def test_interval_and_difference_tell_a_good_system_from_noise() -> None:
    rng = np.random.default_rng(1)
    gold = rng.normal(size=120)
    good = gold + rng.normal(0, 0.5, 120)
    noise = rng.normal(size=120)
    interval = spearman_interval(
        good,
        gold,
        samples=400,
    )
    assert interval.low < interval.value < interval.high < 1.0
    assert interval.low > 0.7
    gain = spearman_difference(
        good,
        noise,
        gold,
        samples=400,
    )
    assert (gain.verdict, gain.value) == (
        "better",
        pytest.approx(spearman(good, gold) - spearman(noise, gold)),
    )
    assert spearman_difference(noise, good, gold, samples=400).verdict == "worse"


def test_equal_systems_show_no_difference_and_a_small_one_gives_how_many_pairs_would() -> None:
    rng = np.random.default_rng(2)
    gold = rng.normal(size=40)
    first = gold + rng.normal(0, 1.0, 40)
    other = gold + rng.normal(0, 1.1, 40)
    same = spearman_difference(
        first,
        first,
        gold,
        samples=200,
    )
    assert (same.value, same.p_value, same.verdict) == (0.0, 1.0, "no difference shown")
    assert add_needed_pairs(same, 40).needed is None
    close = add_needed_pairs(spearman_difference(first, other, gold, samples=200), 40)
    assert close.verdict == "no difference shown"
    assert close.needed is not None
    assert close.needed > 40
