"""Learning rate over the steps."""

from __future__ import annotations


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Linear warm-up over the first `warmup` share of the steps, then linear decay towards 0.

    `step` counts from 0. With w = round(warmup·steps) it is peak·(step + 1)/w while step < w, then
    peak·(steps − step)/(steps − w).
    """
    rising = round(warmup * steps)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * (steps - step) / (steps - rising)
