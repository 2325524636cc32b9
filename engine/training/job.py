"""A training job: what to train, from what, and how to talk to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.core.events import Emit, Event
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData


def never() -> bool:
    """Return False, as a default for `should_stop` and `should_finish`."""
    return False


def ignore(_event: Event) -> None:
    """Drop an event, as a default for `emit`."""


@dataclass(frozen=True, slots=True)
class Job:
    """A training, with its checkpoints in `folder`.

    `should_stop` is called between steps and may wait. `should_finish` is called after each step:
    once it is true, the best adapter so far is the result. `start` is the peft folder of an adapter
    of the same shape to begin with, such as a pre-trained one.
    """

    model: ModelFolder
    data: TrainingData
    config: TrainingConfig
    hardware: Hardware
    folder: Path
    emit: Emit = ignore
    should_stop: Callable[[], bool] = never
    should_finish: Callable[[], bool] = never
    start: Path | None = None
