"""What runs on a node: it opens a function that it is sent, and calls it with shards, one or
several at once.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.core import environment
from engine.core.errors import EngineError
from engine.version import __version__

AUTHENTICATION = "RAY_AUTH_MODE"


@dataclass(frozen=True)
class Failed:
    """An error on its way, as a pipe has it: exceptions lose their fields."""

    error: dict[str, str]


class Worker:
    """An actor.

    Ray begins it anew elsewhere when its node is lost, and repeats the shards that it had.
    """

    def __init__(self, version: str, cores: int, packed: bytes) -> None:
        """`packed`: a function of a module, and what it makes of that what shards are done by;
        by the same `version` only.
        """
        os.environ["OMP_NUM_THREADS"] = str(cores)  # Ray says 1 where it was asked for no core
        environment.prepare_process()
        self._work: Any = None
        if version == __version__:
            opener, shared = pickle.loads(packed)
            self._work = _answered(opener, shared)

    def says(self) -> tuple[str, str, Failed | None]:
        """The version of the program here, how the node authenticates, and why nothing could be
        opened.
        """
        if isinstance(self._work, Failed):
            problem = self._work
        else:
            problem = None
        return __version__, os.environ.get(AUTHENTICATION, ""), problem

    def work(self, shard: Any) -> Any:
        """What comes of a shard, or `Failed`."""
        return _answered(self._work, shard)


def _answered(function: Callable[[Any], Any], given: Any) -> Any:
    try:
        return function(given)
    except EngineError as error:
        return Failed(error.as_dict())
