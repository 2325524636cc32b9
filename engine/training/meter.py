"""Speed, memory and remaining time of a training, reported a few times a second."""

from __future__ import annotations

import time

import psutil
import torch

from engine.core.events import Emit, TrainStep

EMIT_SECONDS = 0.25
_SMOOTHING = 0.9
"""Weight of the mean so far; the newest step has the rest."""


class Meter:
    """Smooths the steps' seconds and tokens by an exponential mean, and emits TrainStep events."""

    def __init__(
        self,
        steps: int,
        device: str,
        emit: Emit,
    ) -> None:
        self._steps = steps
        self._device = device
        self._emit = emit
        self._process = psutil.Process()
        self._seconds = 0.0
        self._tokens = 0.0
        self._emitted_at = float("-inf")

    def record_step(
        self,
        step: int,
        loss: float,
        rate: float,
        tokens: int,
        seconds: float,
    ) -> None:
        """Record step number `step` (from 1), which took `seconds` for `tokens`."""
        keep = _SMOOTHING if self._seconds else 0.0  # the first step has no mean before it
        self._seconds = keep * self._seconds + (1 - keep) * seconds
        self._tokens = keep * self._tokens + (1 - keep) * tokens
        now = time.monotonic()
        if now - self._emitted_at < EMIT_SECONDS and step < self._steps:
            return
        self._emitted_at = now
        self._emit(
            TrainStep(
                step=step,
                steps=self._steps,
                loss=round(loss, 6),
                learning_rate=rate,
                tokens_per_second=round(self._tokens / max(self._seconds, 1e-9), 1),
                memory_mb=round(self.memory_mb(), 1),
                seconds_left=round((self._steps - step) * self._seconds, 1),
            )
        )

    def memory_mb(self) -> float:
        """Return the memory of this process, or that allocated on the GPU, in MB."""
        if self._device != "cpu":
            return torch.cuda.memory_allocated(self._device) / 2**20
        return float(self._process.memory_info().rss) / 2**20
