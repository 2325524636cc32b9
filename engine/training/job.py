"""A training job: its model, data and recipe, and the callbacks during the training."""

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
    """A training, with its inputs and callbacks."""

    model: ModelFolder
    data: TrainingData
    config: TrainingConfig
    hardware: Hardware
    folder: Path
    """Folder of the checkpoints and the resulting adapter."""
    emit: Emit = ignore
    should_stop: Callable[[], bool] = never
    """Called between steps; it may block while a run is paused."""
    should_finish: Callable[[], bool] = never
    """Called after each step: once it is true, the best adapter so far is the result."""
    start: Path | None = None
    """Peft folder of an adapter to begin with, of the same shape, such as a pre-trained one."""
