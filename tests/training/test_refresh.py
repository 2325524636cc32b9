"""Hard negatives that the model finds itself in mid-training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.training import same_training

from engine.core.errors import CancelledError
from engine.core.events import Choice, Event, TrainStep
from engine.training.config import TrainingConfig
from engine.training.data import BatchSampler, TrainingData
from engine.training.refresh import Refresh, hardest
from engine.training.trainer import TrainResult

pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Run = Callable[..., TrainResult]


def test_the_hardest_by_hand() -> None:
    # Cosines of the chunks 2, 5, 7, 9: 0.9, 0.5, 0.9, 0.1 and 0, 0.7, 0.2, 0.7.
    queries = np.eye(2, dtype=np.float32)
    chunks = np.array([[0.9, 0.0], [0.5, 0.7], [0.9, 0.2], [0.1, 0.7]], dtype=np.float32)
    ids = np.array([2, 5, 7, 9])
    assert hardest(queries, chunks, ids, np.array([7, 2]), 2).tolist() == [[2, 5], [5, 9]]
    assert hardest(queries, chunks, ids, np.array([2, 9]), 9).tolist() == [
        [7, 5, 9, -1, -1, -1, -1, -1, -1],
        [5, 7, 2, -1, -1, -1, -1, -1, -1],
    ]


def test_many_queries_are_ranked_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    queries, chunks = rng.normal(size=(600, 8)).astype(np.float32), rng.normal(size=(90, 8)).astype(np.float32)
    ids, positives = np.arange(0, 180, 2), 2 * rng.integers(0, 90, 600)
    found = hardest(queries, chunks, ids, positives, 5)
    for row in (0, 255, 256, 599):
        order = [int(i) for i in ids[np.argsort(-(chunks @ queries[row]), kind="stable")] if i != positives[row]]
        assert found[row].tolist() == order[:5]


def test_when_it_is_due(data: TrainingData, recipe: TrainingConfig) -> None:
    def due(every: int) -> list[int]:
        config = replace(recipe, **{"refresh_every": every})
        refresh = Refresh(data, config, BatchSampler(data, config))
        return [step for step in range(12) if refresh.due(step)]

    assert (due(0), due(5), due(4)) == ([], [5, 10], [4, 8])


def test_without_a_refresh_nothing_changes(run: Run, recipe: TrainingConfig, whole: TrainResult) -> None:
    assert same_training(whole, run(recipe, "too late", refresh_every=12))
    assert not same_training(whole, run(recipe, "once", refresh_every=6))


@pytest.mark.parametrize(
    ("objective", "stops"),
    [
        ("mixed", (5, 11)),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in (("mixed", (4, 6)), ("listnet", (6,)), ("plackett_luce", (6,)))
        ),
    ],
)
def test_a_training_with_refreshes_resumes_to_the_bit(
    run: Run, recipe: TrainingConfig, objective: str, stops: tuple[int, ...]
) -> None:
    """Broken off before a refresh (step 4), right at it (5), after it (6) and after the second (11)."""
    changes = {"objective": objective, "refresh_every": 5, "mined_per_query": 4, "teacher": "mixture"}
    whole = run(recipe, "whole", **changes)
    for stop in stops:
        reached = [0]

        def listen(event: Event, reached: list[int] = reached) -> None:
            reached[0] = event.step if isinstance(event, TrainStep) else reached[0]

        def asked(reached: list[int] = reached, stop: int = stop) -> bool:
            return reached[0] >= stop

        with fails(CancelledError, "cancelled", f"{stop} of 12"):
            run(recipe, f"broken {stop}", emit=listen, should_stop=asked, **changes)
        assert same_training(whole, run(recipe, f"broken {stop}", **changes)), stop


def test_it_can_be_stopped_while_it_mines(run: Run, recipe: TrainingConfig) -> None:
    whole = run(recipe, "whole", refresh_every=5)
    reported: list[Event] = []
    calls: list[int] = []

    def late() -> bool:  # asked once more after step 5: within the refresh
        if any(isinstance(event, TrainStep) and event.step == 5 for event in reported):
            calls.append(1)
        return len(calls) == 2

    with fails(CancelledError, "cancelled", "step 5"):
        run(recipe, "broken", emit=reported.append, should_stop=late, refresh_every=5)
    assert not any(isinstance(event, Choice) and event.setting == "hard negatives" for event in reported)
    assert same_training(whole, run(recipe, "broken", refresh_every=5))


def test_it_reports_what_it_found(run: Run, recipe: TrainingConfig) -> None:
    reported: list[Event] = []
    run(recipe, emit=reported.append, refresh_every=5)
    found = [event for event in reported if isinstance(event, Choice) and event.setting == "hard negatives"]
    assert len(found) == 2
    assert all(0 < int(event.value) <= 200 for event in found)
