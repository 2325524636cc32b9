"""What can go wrong in training, in words for the user."""

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
    """Memory ran out."""
    lines = detail.strip().splitlines()
    return ResourceError(
        "Memory ran out while training.",
        lines[0] if lines else "The system gave no more memory.",
        "Lower training.queries_per_step or encoder.max_tokens, close other programs, or use a"
        " smaller model. Training resumes from its last checkpoint.",
        code="memory-full",
        stage="train",
        command="run",
    )


def not_finite(step: int, dtype: str, rate: str = "learning_rate") -> StageError:
    """The loss or its gradient became infinite or NaN at `step` (from 1).

    `rate`: the setting of the learning rate.
    """
    if dtype == "float32":
        other = ""
    else:
        other = ", or set encoder.dtype to float32"
    return StageError(
        f"Training diverged at step {step}.",
        "The loss or its gradient is no longer a finite number.",
        f"Halve training.{rate} and run again{other}.",
        code="training-diverged",
        stage="train",
        command="run",
    )


def cancelled(step: int, steps: int, what: str = "Training") -> CancelledError:
    """The user stopped the training, or `what` else, after `step`."""
    return CancelledError(
        f"{what} was stopped after step {step} of {steps}.",
        "",
        "Run again to resume there.",
        stage="train",
        command="run",
    )
