"""A test of wins and losses by betting, which allows a look after every answer and any stop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

THRESHOLD = 20.0
"""Wealth that shows a difference with an error of 5 %: 1 / 0.05."""
PRIOR = (3, 5)
"""α and β of the Beta prior over `FRACTIONS`, chosen by exact power.

See docs/log/evaluation.md, "Preferences".
"""
FRACTIONS = np.arange(1, 50) / 50.0
"""Shares of its wealth that each bettor bets: 0.02, 0.04 … 0.98."""
# Upper limit of a logarithm: e to a power above 709 is not a finite float.
_LOG_LIMIT = 700.0


@dataclass(frozen=True, slots=True)
class EProcess:
    """Counts of wins, losses and ties, and the evidence that they give.

    Evidence is the wealth of a bettor who began with 1; it shows a difference from `THRESHOLD` on.
    Ties do not change it.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0

    @property
    def better(self) -> float:
        """Evidence for a share of wins above 1/2: the wealth of a bettor on wins."""
        return wealth(self.wins, self.losses)

    @property
    def worse(self) -> float:
        """Evidence for a share of wins below 1/2: the wealth of a bettor on losses."""
        return wealth(self.losses, self.wins)


def e_process(outcomes: Iterable[int]) -> EProcess:
    """Count outcomes: above 0 a win, below 0 a loss, 0 a tie."""
    signs = np.sign(np.fromiter(outcomes, np.int64))
    wins = int((signs > 0).sum())
    losses = int((signs < 0).sum())
    return EProcess(
        wins,
        losses,
        len(signs) - wins - losses,
    )


def wealth(wins: int, losses: int) -> float:
    """Return the wealth of a mixture of bettors that began with 1 and bet on wins at even odds.

    Bettor k begins with π_k and bets the share f_k of its wealth, so that after w wins and l losses
    all have

        W = Σ_k π_k (1 + f_k)^w (1 − f_k)^l,    π_k ∝ f_k² (1 − f_k)⁴,    f_k = 0.02, 0.04 … 0.98.

    If a win has a probability of at most 1/2 whatever came before, W is a non-negative
    supermartingale that begins at 1, and the probability that it ever reaches 20 is at most 1/20
    (Ville 1939). A bettor who knew the share of wins p would bet f = 2p − 1 (Kelly 1956); the
    mixture (Robbins 1970; Cover 1991) need not know it. Betting as a test: Shafer 2021;
    Waudby-Smith & Ramdas 2024. The order of wins and losses does not change W.
    """
    alpha, beta = PRIOR
    density = FRACTIONS ** (alpha - 1) * (1.0 - FRACTIONS) ** (beta - 1)
    prior = density / density.sum()
    # Logarithms, since a bettor's wealth may be too large or too small for a float.
    logs = np.log(prior) + wins * np.log1p(FRACTIONS) + losses * np.log1p(-FRACTIONS)
    largest = float(logs.max())
    log_sum = largest + float(np.log(np.exp(logs - largest).sum()))
    return float(np.exp(min(log_sum, _LOG_LIMIT)))
