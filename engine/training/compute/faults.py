"""Errors of training, in words for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.core.errors import CancelledError, ResourceError, StageError


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn every way in which torch and Python report missing memory into a ResourceError."""
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise out_of_memory(str(error)) from error
    except RuntimeError as error:
        if "not enough memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise out_of_memory(str(error)) from error


def out_of_memory(detail: str) -> ResourceError:
    """Return the error for missing memory."""
    lines = detail.strip().splitlines()
    why = "The system gave no more memory."
    if lines:
        why = lines[0]
    return ResourceError(
        "Memory ran out while training.",
        why,
        "Lower training.queries_per_step or encoder.max_tokens, close other programs, or use a"
        " smaller model. Training resumes from its last checkpoint.",
        code="memory-full",
        stage="train",
        command="run",
    )


def not_finite(
    step: int,
    dtype: str,
    rate: str = "learning_rate",
) -> StageError:
    """Return the error for a loss or gradient that became infinite or NaN at `step` (from 1).

    `rate`: the key of the learning rate under [training] in project.toml.
    """
    alternative = ""
    if dtype != "float32":
        alternative = ", or set encoder.dtype to float32"
    return StageError(
        f"Training diverged at step {step}.",
        "The loss or its gradient is no longer a finite number.",
        f"Halve training.{rate} and run again{alternative}.",
        code="training-diverged",
        stage="train",
        command="run",
    )


def cancelled(
    step: int,
    steps: int,
    what: str = "Training",
) -> CancelledError:
    """Return the error for a training, or `what` else, that the user stopped after `step`."""
    return CancelledError(
        f"{what} was stopped after step {step} of {steps}.",
        "",
        "Run again to resume there.",
        stage="train",
        command="run",
    )
