"""Wins and losses tested by betting, so that one may look after every answer and stop at any
time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shown = Literal["better", "worse", "neither"]

THRESHOLD = 20.0
"""Wealth that shows a difference: 1 / 0.05."""
PRIOR = (3, 5)
"""Of the share of the wealth that is bet, Beta(3, 5): chosen by exact power
(docs/log/evaluation.md, "Preferences").
"""
FRACTIONS = np.arange(1, 50) / 50.0
_LOG_LIMIT = 700.0  # e to a power above it is no float


@dataclass(frozen=True, slots=True)
class EProcess:
    """What wins and losses show.

    `better`: the wealth of who bets on wins, from 1; `worse`: that of who bets on losses. `ties`
    are counted, and change neither.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0

    @property
    def better(self) -> float:
        """Evidence for a share of wins above 1/2."""
        return wealth(self.wins, self.losses)

    @property
    def worse(self) -> float:
        """Evidence for a share of wins below 1/2."""
        return wealth(self.losses, self.wins)

    @property
    def shown(self) -> Shown:
        """What is shown at 5 % each, however often one has looked."""
        if self.better >= THRESHOLD:
            return "better"
        return "worse" if self.worse >= THRESHOLD else "neither"


def e_process(outcomes: Iterable[int]) -> EProcess:
    """Count `outcomes`: above 0 a win, below 0 a loss, 0 a tie."""
    signs = np.sign(np.fromiter(outcomes, np.int64))
    return EProcess(int((signs > 0).sum()), int((signs < 0).sum()), int((signs == 0).sum()))


def wealth(wins: int, losses: int) -> float:
    """What 1 has become after bets on every win, at even odds, by a mixture of bettors.

    Bettor k begins with π_k and bets the share f_k of what he has, so that after w wins and l
    losses all have

        W = Σ_k π_k (1 + f_k)^w (1 − f_k)^l,    π_k ∝ f_k² (1 − f_k)⁴,    f_k = 0.02, 0.04 … 0.98.

    Where a win has a probability of at most 1/2 whatever came before, W is a non-negative
    supermartingale that begins at 1, and the probability that it ever reaches 20 is at most 1/20
    (Ville 1939). A bettor who knew the share of wins p would bet f = 2p − 1 (Kelly 1956); the
    mixture (Robbins 1970; Cover 1991) need not know it. Betting as a test: Shafer 2021;
    Waudby-Smith & Ramdas 2024. The order of wins and losses does not change W.
    """
    exponents = np.log(_weights()) + wins * np.log1p(FRACTIONS) + losses * np.log1p(-FRACTIONS)
    largest = float(exponents.max())
    total = largest + float(np.log(np.exp(exponents - largest).sum()))
    return float(np.exp(min(total, _LOG_LIMIT)))


def _weights() -> Floats:
    first, second = PRIOR
    weights = FRACTIONS ** (first - 1) * (1.0 - FRACTIONS) ** (second - 1)
    shares: Floats = weights / weights.sum()
    return shares


def fewest_wins(answers: int) -> int:
    """Wins among so many `answers` that show a share above 1/2; one more than there are answers
    where none do.
    """
    return bisect_left(
        range(answers + 1), True, key=lambda wins: wealth(wins, answers - wins) >= THRESHOLD
    )
