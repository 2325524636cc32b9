"""How soon preferences show a difference, and how often one that is not there, by several bettors.

The wealth is looked at after every answer. Probabilities are exact, by the number of wins so far;
`--runs N` draws answers as well, ties among them, and asks the product's own code. `python
tests/benchmarks/preferences.py [--runs 2000] [--seed 0]`
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import lgamma, log, pi
from typing import NamedTuple

import numpy as np

from engine.metrics.e_process import THRESHOLD, EProcess

SHARES = (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8)  # of answers that are wins
ANSWERS = 1000  # looked at where the candidate is no better
ANSWERS_IF_BETTER = 100
TIES = 0.3  # share of the drawn answers that say that both lists are the same

# Of a number of wins and one of losses, the logarithm of a bettor's wealth.
LogWealth = Callable[[int, int], float]


def mixture(first: float, second: float) -> LogWealth:
    """Return the wealth of bets by a mixture of fractions, Beta(first, second).

    That is how the product bets.
    """
    fractions = np.arange(1, 50) / 50.0
    weights = fractions ** (first - 1) * (1 - fractions) ** (second - 1)
    logs = np.log(weights / weights.sum())
    gains = np.log1p(fractions)
    costs = np.log1p(-fractions)

    def log_wealth(wins: int, losses: int) -> float:
        exponents = logs + wins * gains + losses * costs
        largest = float(exponents.max())
        return largest + float(np.log(np.exp(exponents - largest).sum()))

    return log_wealth


def one_fraction(fraction: float) -> LogWealth:
    """Return the wealth of always the same bet."""
    return lambda wins, losses: wins * np.log1p(fraction) + losses * np.log1p(-fraction)


def krichevsky_trofimov(wins: int, losses: int) -> float:
    """Return the log wealth by Jeffreys' prior on the share of wins, on both sides of 1/2.

    It is B(w + 1/2, l + 1/2) / B(1/2, 1/2) · 2ⁿ.
    """
    total = wins + losses
    log_beta = lgamma(wins + 0.5) + lgamma(losses + 0.5) - lgamma(total + 1)
    return log_beta - log(pi) + total * log(2)


BETTORS: dict[str, LogWealth] = {
    "Beta(3, 5), the product's": mixture(3, 5),
    "Beta(1, 1)": mixture(1, 1),
    "Beta(2, 2)": mixture(2, 2),
    "Beta(2, 4)": mixture(2, 4),
    "always 0.3": one_fraction(0.3),
    "always 0.4": one_fraction(0.4),
    "KT, both sides": krichevsky_trofimov,
}


def crossing_counts(log_wealth: LogWealth, answers: int) -> list[int]:
    """Return the fewest wins that reach the threshold, for each number of answers from 0.

    They are more than half of the answers.
    """
    limit = float(np.log(THRESHOLD))
    needed_wins = []
    for count in range(answers + 1):
        majority = count // 2 + 1
        candidates = range(majority, count + 1)
        reaches = partial(
            _reaches,
            log_wealth,
            limit,
            count,
        )
        needed_wins.append(majority + bisect_left(candidates, True, key=reaches))
    return needed_wins


def _reaches(
    log_wealth: LogWealth,
    limit: float,
    count: int,
    wins: int,
) -> bool:
    return log_wealth(wins, count - wins) >= limit


def crossing_probabilities(needed_wins: Sequence[int], share: float) -> list[float]:
    """Return the exact probability that the threshold is reached, by number of answers from 0.

    `needed_wins`: of `crossing_counts`. `share`: of answers that are wins.
    """
    # By number of wins, the probability of having them without having reached the threshold.
    alive = np.zeros(len(needed_wins) + 1)
    alive[0] = 1.0
    crossed = [0.0]
    for count in range(1, len(needed_wins)):
        after = (1 - share) * alive
        after[1:] += share * alive[:-1]
        needed = needed_wins[count]
        crossed.append(crossed[-1] + float(after[needed:].sum()))
        after[needed:] = 0.0
        alive = after
    return crossed


class ShownShares(NamedTuple):
    """Shares of runs in which the candidate is shown to be better, and to be worse, at any time."""

    better: float
    worse: float


def draw_runs(
    share: float,
    answers: int,
    runs: int,
    rng: np.random.Generator,
) -> ShownShares:
    """Draw the answers of so many runs, and look at each with the product's own code."""
    better = 0
    worse = 0
    for _ in range(runs):
        outcomes = np.where(rng.random(answers) < share, 1, -1) * (rng.random(answers) >= TIES)
        wins = np.cumsum(outcomes > 0)
        losses = np.cumsum(outcomes < 0)
        verdicts = set(map(_verdict_of, wins.tolist(), losses.tolist()))
        better += "better" in verdicts
        worse += "worse" in verdicts
    return ShownShares(better / runs, worse / runs)


@cache
def _verdict_of(wins: int, losses: int) -> str:
    state = EProcess(wins, losses)
    if state.better >= THRESHOLD:
        return "better"
    if state.worse >= THRESHOLD:
        return "worse"
    return "neither"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs",
        type=int,
        default=0,
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
    )
    options = parser.parse_args()
    print(
        f"Shown to be better within {ANSWERS_IF_BETTER} answers that are no ties; at a share of"
        f" 0.5 and below within {ANSWERS}."
    )
    print(f"{'bettor':<26} " + " ".join(f"{share:>6g}" for share in SHARES))
    for name, log_wealth in BETTORS.items():
        needed_wins = crossing_counts(log_wealth, ANSWERS)
        cells = []
        for share in SHARES:
            probabilities = crossing_probabilities(needed_wins, share)
            cells.append(probabilities[ANSWERS if share <= 0.5 else ANSWERS_IF_BETTER])
        print(f"{name:<26} " + " ".join(f"{100 * cell:6.1f}" for cell in cells))
    if options.runs:
        rng = np.random.default_rng(options.seed)
        answers = round(ANSWERS_IF_BETTER / (1 - TIES))
        print(
            f"\nDrawn, {options.runs} runs of {answers} answers, {TIES:.0%} of them ties: better,"
            " worse"
        )
        for share in SHARES:
            better, worse = draw_runs(
                share,
                answers,
                options.runs,
                rng,
            )
            print(f"{share:>6g} {100 * better:6.1f} {100 * worse:6.1f}")


if __name__ == "__main__":
    main()
