"""Whether `accelerate launch` or torchrun started this process as one of several, on one machine
or more. Loads nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
SPENT = "BMEMBED_LAUNCH_SPENT"
spent = False


@dataclass(frozen=True, slots=True)
class Launch:
    """This process is number `rank` (from 0) of `count`, and number `local_rank` of
    `local_count` on its machine.
    """

    rank: int
    count: int
    local_rank: int
    local_count: int

    @property
    def spans_machines(self) -> bool:
        """Whether some of the processes run on another machine."""
        return self.local_count < self.count


def find_launch(environ: Mapping[str, str] | None = None) -> Launch | None:
    """What the launcher's environment variables say; None for a process that stands alone."""
    given = os.environ if environ is None else environ
    if not all(given.get(name) for name in _VARIABLES):
        return None
    try:
        count = int(given["WORLD_SIZE"])
        local_count = int(given.get("LOCAL_WORLD_SIZE") or count)
        found = Launch(int(given["RANK"]), count, int(given["LOCAL_RANK"]), local_count)
    except ValueError:
        return None
    if 0 <= found.rank < found.count and found.count > 1:
        return found
    return None


def spend() -> None:
    """The other processes of this launch help with its first training, and then end: what this
    process trains later is trained alone.
    """
    global spent
    spent = spent or find_launch() is not None


def inherited(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child process: without the launch where the others of it have ended."""
    given = dict(os.environ if environ is None else environ)
    if spent:
        return {name: value for name, value in given.items() if name not in _VARIABLES} | {
            SPENT: "1"
        }
    return given


def trains_alone(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the other processes of the launch that this one belongs to have ended."""
    return bool((os.environ if environ is None else environ).get(SPENT))


def follows() -> bool:
    """Whether another process of the same launch leads: this one has to help it train, and do
    nothing else.
    """
    found = find_launch()
    return found is not None and found.rank > 0
