"""Garbage collection while nobody types.

A full collection visits some 160,000 objects and delays a key by 80 ms. It therefore runs while
nobody types, and then freezes the objects that are left, which makes Python's automatic
collections cheap.
"""

from __future__ import annotations

import gc
import time

PAUSE_SECONDS = 0.4  # without a key or a click


class IdleCollector:
    """A garbage collector that runs in pauses between keys and clicks.

    Call `note_input` at every key or click, and `collect_if_idle` at regular intervals.
    """

    def __init__(self) -> None:
        self._last_input = time.monotonic()
        self._collections_done = -1  # Python's count after the last collection in a pause

    def note_input(self) -> None:
        self._last_input = time.monotonic()

    def collect_if_idle(self) -> None:
        """Collect during a pause, if Python has run a full collection since the last time."""
        if time.monotonic() - self._last_input < PAUSE_SECONDS:
            return
        if self._count_full_collections() == self._collections_done:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._collections_done = self._count_full_collections()

    def close(self) -> None:
        gc.unfreeze()

    @staticmethod
    def _count_full_collections() -> int:
        oldest_generation = gc.get_stats()[2]
        return int(oldest_generation["collections"])
