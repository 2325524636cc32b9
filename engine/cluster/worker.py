"""The process on a node: it unpickles a function and calls it with shards."""

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
"""Environment variable of Ray: `token` if its processes ask for one."""


@dataclass(frozen=True)
class Failed:
    """An error as JSON, since exceptions lose their fields in transport."""

    error: dict[str, str]


class Worker:
    """An actor that processes shards.

    If its node is lost, Ray restarts it elsewhere and repeats its shards.
    """

    def __init__(
        self,
        version: str,
        cores: int,
        packed: bytes,
    ) -> None:
        """Open the function, if both sides run the same `version`.

        `cores`: the threads that libraries may use. `packed`: a pickled opener (a function of a
        module) and its argument; the opener returns the function that processes shards.
        """
        # Ray sets the variable to 1 for actors that claim no core.
        os.environ["OMP_NUM_THREADS"] = str(cores)
        environment.prepare_process()
        self._function: Any = None
        # Another version may lack the function: `describe` then reports the version alone.
        if version == __version__:
            opener, shared = pickle.loads(packed)
            self._function = _call(opener, shared)

    def describe(self) -> tuple[str, str, Failed | None]:
        """Return the program's version, the node's authentication, and why opening failed."""
        problem = self._function if isinstance(self._function, Failed) else None
        # A tuple of strings can be read by any version of the program.
        return __version__, os.environ.get(AUTHENTICATION, ""), problem

    def work(self, shard: Any) -> Any:
        """Return the result of a shard, or `Failed` if the function raised an EngineError."""
        return _call(self._function, shard)


def _call(function: Callable[[Any], Any], argument: Any) -> Any:
    """Return the result of a function, or `Failed` for its EngineError."""
    try:
        return function(argument)
    except EngineError as error:
        return Failed(error.as_dict())
