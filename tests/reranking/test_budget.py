"""As many passages as fit into a time, on a clock that only the reranker moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
import pytest

from engine.core.errors import EngineError
from engine.core.messages.search import RerankerSpeed
from engine.reranking.budget import BudgetedReranker, Scored, measure_speed


@dataclass
class SlowReranker:
    """Takes `cost(pairs scored before)` seconds a pair, of its own clock.

    The score is the passage's number.
    """

    cost: Callable[[int], float]
    batch_share: float = 0.1
    first_batch: int = 1
    name: str = "slow"
    fingerprint: str = "slow"
    now: float = 0.0
    batches: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def load(self) -> None:
        self.now += 100.0

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> np.ndarray:
        for _ in passages:
            self.now += self.cost(sum(self.batches))
        self.batches.append(len(passages))
        self.waits.append(seconds)
        return np.array(
            [float(text.split()[0]) for text in passages if text[0].isdigit()], np.float32
        )


PASSAGES = [f"{number} passage" for number in range(10, 90)]


def scored(
    reranker: SlowReranker, seconds: float = 1.0, passages: Sequence[str] = PASSAGES
) -> Scored:
    return BudgetedReranker(reranker, seconds, lambda: reranker.now).scores("q", passages)


@pytest.mark.parametrize(
    ("cost", "least", "most"), [(0.01, 80, 80), (0.02, 44, 50), (0.05, 18, 20), (0.3, 3, 3)]
)
def test_a_slow_model_scores_what_fits(
    cost: float,
    least: int,
    most: int,
) -> None:
    found = scored(SlowReranker(lambda _: cost))
    assert least <= len(found.scores) <= most
    assert found.scores.tolist() == list(range(10, 10 + len(found.scores)))
    assert found.seconds == pytest.approx(cost * len(found.scores))
    assert found.seconds <= 1.0
    assert found.problem is None


@pytest.mark.parametrize("slower", [2, 3])
@pytest.mark.parametrize("turn", range(0, 60, 3))
def test_a_machine_that_slows_down_keeps_within_a_fifth_more(slower: int, turn: int) -> None:
    found = scored(SlowReranker(lambda done: 0.01 * (slower if done >= turn else 1)))
    assert 0 < len(found.scores) <= 80
    assert found.seconds <= 1.2


def test_a_machine_that_gets_faster_scores_more() -> None:
    slow = SlowReranker(lambda done: 0.05 if done < 10 else 0.005)
    assert len(scored(slow).scores) > 60
    assert slow.batches[0] == 1
    assert max(slow.batches) > 5


def test_loading_does_not_count_and_teaches_the_pace() -> None:
    slow = SlowReranker(lambda _: 0.02)
    timed = BudgetedReranker(
        slow,
        1.0,
        lambda: slow.now,
    )
    timed.load()
    assert slow.now > 100
    assert timed.scores("q", PASSAGES).seconds <= 1.0
    assert slow.batches[1] == 4, "the warm-up's pace"


def test_a_passage_that_takes_longer_than_the_time_is_not_begun() -> None:
    slow = SlowReranker(lambda _: 30.0)
    timed = BudgetedReranker(
        slow,
        1.0,
        lambda: slow.now,
    )
    timed.load()
    found = timed.scores("q", ["10 " + "word " * 200])
    assert (len(found.scores), found.seconds) == (0, 0.0)
    assert found.problem is not None
    assert found.problem.code == "reranker-slow"


def test_a_busy_moment_is_not_the_end_of_it() -> None:
    slow = SlowReranker(lambda _: 4.0)
    timed = BudgetedReranker(
        slow,
        1.0,
        lambda: slow.now,
    )
    timed.load()
    slow.cost = lambda _: 0.02
    counts = [len(timed.scores("q", PASSAGES).scores) for _ in range(10)]
    assert counts[0] == 0
    assert counts[-1] > 40


def test_long_passages_make_smaller_batches() -> None:
    slow = SlowReranker(lambda _: 0.0)
    slow.cost = lambda done: 0.001 if done < 40 else 0.02
    passages = [*PASSAGES[:40], *(text + " word" * 40 for text in PASSAGES[40:])]
    found = scored(slow, passages=passages)
    assert found.seconds <= 1.0
    assert len(found.scores) == 80 or slow.batches[-1] <= 5


def test_nothing_to_score_is_no_problem() -> None:
    found = scored(SlowReranker(lambda _: 1.0), passages=[])
    assert (len(found.scores), found.problem) == (0, None)


def test_it_stops_between_batches() -> None:
    slow = SlowReranker(lambda _: 0.01)
    stops = iter([False, False, True, True])
    found = BudgetedReranker(slow, 1.0, lambda: slow.now).scores(
        "q",
        PASSAGES,
        lambda: next(stops),
    )
    assert len(found.scores) == sum(slow.batches)
    assert len(slow.batches) == 2
    assert found.problem is None


def test_a_server_is_asked_for_more_at_once_and_waited_for_no_longer_than_the_time() -> None:
    slow = SlowReranker(
        lambda _: 0.01,
        batch_share=0.5,
        first_batch=4,
    )
    found = scored(slow)
    assert slow.batches[0] == 4
    assert slow.waits[0] == pytest.approx(1.0)
    assert all(
        wait <= 1.0 - 0.01 * sum(slow.batches[:n]) + 1e-9 for n, wait in enumerate(slow.waits)
    )
    assert found.seconds <= 1.0


def test_what_was_scored_before_a_failure_counts() -> None:
    def cost(done: int) -> float:
        if done >= 5:
            raise EngineError("It died.", code="reranker-failed")
        return 0.02

    slow = SlowReranker(cost)
    found = scored(slow)
    assert len(found.scores) == sum(slow.batches) >= 5
    assert found.problem is not None
    assert found.problem.code == "reranker-failed"


@pytest.mark.parametrize(
    ("cost", "limit", "batches", "wanted"),
    [
        (1 / 64, 0.5, [8] * 8, RerankerSpeed("slow", 64.0, 32, 0.5)),
        (1 / 16, 1.0, [8] * 2, RerankerSpeed("slow", 16.0, 16, 1.0)),
        (1 / 1024, 1.0, [8] * 10, RerankerSpeed("slow", 1024.0, 100, 100 / 1024)),
        (2.0, 1.0, [8], RerankerSpeed("slow", 0.5, 0, 0.0)),
    ],
)
def test_the_speed_is_that_of_about_a_second(
    cost: float, limit: float, batches: list[int], wanted: RerankerSpeed
) -> None:
    reranker = SlowReranker(lambda _: cost)
    speed = measure_speed(
        reranker,
        PASSAGES,
        limit,
        lambda: reranker.now,
    )
    assert reranker.batches == batches
    assert speed.passages == wanted.passages
    assert speed.passages_per_second == pytest.approx(wanted.passages_per_second)
    assert speed.seconds == pytest.approx(wanted.seconds)


@pytest.mark.parametrize(
    ("rate", "text"), [(266.7, "267 passages"), (1234.0, "1,234 passages"), (0.46, "0.5 passages")]
)
def test_the_speed_in_words(rate: float, text: str) -> None:
    assert RerankerSpeed("x", rate, 1, 1.0).format_rate.startswith(text)
