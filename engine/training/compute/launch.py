"""Detection of `accelerate launch` and torchrun, which start several processes.

It loads nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
SPENT = "BMEMBED_LAUNCH_SPENT"
"""Variable that tells a child process that the launch is used up."""
spent = False
"""Whether this process's launch is used up: its other processes have ended."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The place of this process among the processes of its launch."""

    rank: int
    """Its number among all processes, from 0; the process of rank 0 leads."""
    count: int
    """Number of all processes."""
    local_rank: int
    """Its number among the processes on its machine, from 0."""
    local_count: int
    """Number of processes on its machine."""

    @property
    def spans_machines(self) -> bool:
        """Whether some of the processes run on another machine."""
        return self.local_count < self.count


def find_launch(environ: Mapping[str, str] | None = None) -> Launch | None:
    """Return what the launcher's environment variables say, or None for a single process."""
    variables = os.environ if environ is None else environ
    if not all(variables.get(name) for name in _VARIABLES):
        return None
    try:
        rank = int(variables["RANK"])
        count = int(variables["WORLD_SIZE"])
        local_rank = int(variables["LOCAL_RANK"])
        local_count = int(variables.get("LOCAL_WORLD_SIZE") or count)
    except ValueError:
        return None
    if 0 <= rank < count and count > 1:
        return Launch(rank, count, local_rank, local_count)
    return None


def spend() -> None:
    """Mark this launch as used up: its other processes end after its first training.

    What this process trains later is trained alone.
    """
    global spent
    spent = spent or find_launch() is not None


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child process, without a launch whose other processes ended."""
    variables = dict(os.environ if environ is None else environ)
    if not spent:
        return variables
    for name in _VARIABLES:
        variables.pop(name, None)
    variables[SPENT] = "1"
    return variables


def trains_alone(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether the other processes of this process's launch have ended."""
    variables = os.environ if environ is None else environ
    return bool(variables.get(SPENT))


def is_follower() -> bool:
    """Return whether another process of the launch leads, so that this one only helps to train."""
    launch = find_launch()
    return launch is not None and launch.rank > 0
