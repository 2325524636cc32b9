"""A training that the user asks to finish, or that waits: what it keeps, what it says, what a
later one sees of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.training import After, adapter, same

from engine.core.errors import CancelledError
from engine.core.events import Choice, Event, HeldOut, TrainStep
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.trainer import TrainResult

pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Run = Callable[..., TrainResult]


def saved_state(folder: Path) -> dict[str, object]:
    newest = max(folder.glob("step-*"))
    state: dict[str, object] = json.loads((newest / "state.json").read_text())["state"]
    return state


def test_it_ends_at_the_step_with_a_last_check_and_reports_it(
    run: Run, recipe: TrainingConfig
) -> None:
    asked = After(6)
    result = run(recipe, emit=asked.listen, should_finish=asked)  # checks at 0, 4, 8, 12
    assert (result.steps, result.ended) == (6, "asked")
    assert [event.step for event in asked.reported if isinstance(event, HeldOut)] == [0, 4, 6]
    assert [entry["step"] for entry in result.history] == [0, 4, 6]
    (choice,) = (
        event for event in asked.reported if isinstance(event, Choice) and event.setting == "steps"
    )
    assert choice.value == "6"
    assert "step 6;" in choice.reason
    assert f"step {result.best_step} " in choice.reason
    best = max(result.history[1:], key=lambda entry: entry["ndcg_at_10"])
    assert result.best_ndcg_at_10 == best["ndcg_at_10"]


def test_the_best_adapter_is_kept_not_the_last(
    run: Run, recipe: TrainingConfig, data: TrainingData
) -> None:
    # The held-out queries are copies of their chunks: the base model finds all of them, and
    # training only loses some.
    copies = replace(data, heldout_queries=[data.chunks[p] for p in data.heldout_positives])
    asked = After(10)
    result = run(
        recipe,
        given=copies,
        emit=asked.listen,
        should_finish=asked,
        steps=100,
        eval_every=50,
        learning_rate=0.1,
        heldout_pool=200,
    )
    assert (result.steps, result.best_step, result.ended) == (10, 0, "asked")
    assert all(not value.any() for name, value in adapter(result).items() if "lora_B" in name), (
        "that of step 0"
    )


def test_a_check_that_was_just_made_is_not_made_again(run: Run, recipe: TrainingConfig) -> None:
    asked = After(4)
    result = run(
        recipe,
        emit=asked.listen,
        should_finish=asked,
    )
    assert result.steps == 4
    assert [entry["step"] for entry in result.history] == [0, 4]


def test_without_held_out_queries_the_adapter_of_that_step_is_kept(
    run: Run, recipe: TrainingConfig, data: TrainingData
) -> None:
    bare = replace(
        data,
        heldout_queries=(),
        heldout_positives=np.empty(0, int),
        heldout_hard=None,
    )
    asked = After(3)
    result = run(
        recipe,
        given=bare,
        emit=asked.listen,
        should_finish=asked,
    )
    assert (result.steps, result.best_step, result.ended) == (3, 3, "asked")
    assert [entry["step"] for entry in result.history] == [1, 2, 3]
    assert any(isinstance(event, Choice) and "step 3 " in event.reason for event in asked.reported)


def test_no_checkpoint_remembers_it(
    run: Run,
    recipe: TrainingConfig,
    tmp_path: Path,
) -> None:
    """Should the result be lost on its way into the project, the next run trains on to the same
    end as ever.
    """
    whole = run(recipe, "whole")
    asked = After(6)
    run(
        recipe,
        "asked",
        emit=asked.listen,
        should_finish=asked,
    )
    state = saved_state(tmp_path / "asked")
    assert (state["step"], state["stopped"]) == (6, False)
    resumed = run(recipe, "asked")
    assert (resumed.steps, resumed.ended) == (12, "all steps")
    assert resumed.history == whole.history
    assert same(adapter(resumed), adapter(whole))


def test_stopping_goes_before_finishing(
    run: Run,
    recipe: TrainingConfig,
    tmp_path: Path,
) -> None:
    asked = After(5)
    with fails(CancelledError, "cancelled", "5 of 12"):
        run(
            recipe,
            emit=asked.listen,
            should_finish=asked,
            should_stop=asked,
        )
    assert not (tmp_path / "run" / "adapter").exists()


def test_it_can_be_stopped_within_its_last_check(
    run: Run, recipe: TrainingConfig, tmp_path: Path
) -> None:
    asked = After(6)
    calls = list[int]()

    def late() -> bool:  # not before that step, but in the check that follows
        if asked():
            calls.append(1)
        return len(calls) == 2

    with pytest.raises(CancelledError):
        run(
            recipe,
            emit=asked.listen,
            should_finish=asked,
            should_stop=late,
        )
    state = saved_state(tmp_path / "run")
    assert state["step"] == 6
    assert isinstance(state["history"], list)
    assert state["history"][-1]["step"] == 4


def test_a_pause_is_not_counted(
    run: Run, recipe: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every safe point waits for an hour, by the clock that the figures are made from."""
    from engine.training import loop, meter

    waited = 0.0

    def monotonic() -> float:
        return time.monotonic() + waited

    def wait() -> bool:
        nonlocal waited
        waited += 3600
        return False

    for module in (loop, meter):
        monkeypatch.setattr(
            module,
            "time",
            SimpleNamespace(monotonic=monotonic),
        )
    reported: list[Event] = []
    run(
        recipe,
        emit=reported.append,
        should_stop=wait,
    )
    steps = [event for event in reported if isinstance(event, TrainStep)]
    assert len(steps) == 12
    assert waited > 12 * 3600
    assert all(event.seconds_left < 3600 for event in steps)
    assert all(event.tokens_per_second > 0.5 for event in steps)  # a step has some hundred tokens


def test_a_training_that_ended_by_itself_reports_which_way(
    run: Run, recipe: TrainingConfig, data: TrainingData
) -> None:
    assert run(recipe, "whole").ended == "all steps"
    copies = replace(data, heldout_queries=[data.chunks[p] for p in data.heldout_positives])
    early = run(
        recipe,
        "early",
        given=copies,
        steps=100,
        eval_every=10,
        patience=2,
        learning_rate=0.1,
        heldout_pool=200,
    )
    assert (early.steps, early.ended) == (20, "no gain")
