"""Betting on wins: wealth by hand, and its exact level and power."""

from __future__ import annotations

import numpy as np
import pytest

from engine.metrics.e_process import FRACTIONS, THRESHOLD, EProcess, e_process, wealth


def fewest_wins(answers: int) -> int:
    """How many wins show a share above 1/2; one more than the answers if no number does."""
    for wins in range(answers + 1):
        if wealth(wins, answers - wins) >= THRESHOLD:
            return wins
    return answers + 1


def crossing_probability(share: float, answers: int) -> float:
    """The exact probability that the wealth reaches the threshold at some time within so many
    answers.
    """
    alive = np.zeros(answers + 2)  # by number of wins, of those that have not crossed
    alive[0] = 1.0
    crossed = 0.0
    for count in range(1, answers + 1):
        after = (1 - share) * alive
        after[1:] += share * alive[:-1]
        needed = fewest_wins(count)
        crossed += float(after[needed:].sum())
        after[needed:] = 0.0
        alive = after
    return crossed


def test_wealth_is_the_mixture_of_its_bettors() -> None:
    weights = FRACTIONS**2 * (1 - FRACTIONS) ** 4
    weights /= weights.sum()
    assert wealth(0, 0) == pytest.approx(1.0)
    assert (
        wealth(1, 0)
        == pytest.approx(1 + float(weights @ FRACTIONS))
        == pytest.approx(1.375, abs=1e-3)
    )
    assert wealth(2, 1) == pytest.approx(float(weights @ ((1 + FRACTIONS) ** 2 * (1 - FRACTIONS))))


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (3, 1), (10, 20), (60, 30)])
def test_a_fair_coin_neither_adds_nor_takes(wins: int, losses: int) -> None:
    both = (wealth(wins + 1, losses) + wealth(wins, losses + 1)) / 2
    assert both == pytest.approx(wealth(wins, losses))


def test_outcomes_are_counted_and_ties_bet_on_nothing() -> None:
    state = e_process([1, 0, 1, -1, 0, 1])
    assert state == EProcess(3, 1, 2)
    assert state.better == wealth(3, 1)
    assert state.worse == wealth(1, 3)
    assert e_process([]).better == 1.0


def test_nine_wins_in_a_row_show_a_gain_and_nine_losses_a_loss() -> None:
    assert EProcess(8, 0).better < THRESHOLD <= EProcess(9, 0).better
    assert EProcess(0, 9).better < 1
    assert EProcess(0, 8).worse < THRESHOLD <= EProcess(0, 9).worse
    assert fewest_wins(8) == 9
    assert fewest_wins(9) == 9


def test_the_largest_counts_stay_numbers() -> None:
    assert np.isfinite(wealth(100_000, 0))
    assert wealth(0, 100_000) == 0.0
    assert wealth(100_000, 0) > THRESHOLD


def test_looking_after_every_answer_keeps_the_level() -> None:
    assert 0.03 < crossing_probability(0.5, 400) <= 0.05
    assert crossing_probability(0.45, 400) < 0.01


def test_seventy_to_thirty_is_found_within_a_hundred() -> None:
    assert crossing_probability(0.7, 100) >= 0.9
