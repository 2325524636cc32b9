"""When the app looks for garbage: while nobody types.

A full collection goes through every object of the app, some 160,000: 80 ms for which a key would
have to wait. What has lived until a pause is therefore left out of Python's own collections from
then on, which makes them cheap, and is looked through again at a later pause, when enough has been
made since.
"""

from __future__ import annotations

import gc
import time

PAUSE_SECONDS = 0.4  # without a key or a click


class IdleCollector:
    """`touched()` at every key; `look()` now and then."""

    def __init__(self) -> None:
        self._touched = time.monotonic()
        self._full = -1

    def touched(self) -> None:
        self._touched = time.monotonic()

    def look(self) -> None:
        """Collect, if there is a pause and Python has found it worth while since the last time."""
        if (
            time.monotonic() - self._touched < PAUSE_SECONDS
            or self._full_collections() == self._full
        ):
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._full = self._full_collections()

    def close(self) -> None:
        gc.unfreeze()

    @staticmethod
    def _full_collections() -> int:
        return int(gc.get_stats()[2]["collections"])
