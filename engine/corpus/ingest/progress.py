"""How far the reading is, in files, and which file holds it up."""

from __future__ import annotations

import time

from engine.project.stage import StageContext

SLOW_SECONDS = 5.0  # of one file, after which it is named


class FileProgress:
    """Reports the files that are done, and names the one that takes long.

    `done`: of earlier runs.
    """

    def __init__(self, context: StageContext, done: int, total: int) -> None:
        self._context = context
        self.done = done
        self.total = total
        self._path = ""
        self._since = 0.0

    @property
    def left(self) -> int:
        """How many files are not read yet."""
        return self.total - self.done

    def turn_to(self, path: str) -> None:
        """Note which file the others wait for."""
        if path != self._path:
            self._path = path
            self._since = time.monotonic()

    def add(self, count: int) -> None:
        """Report that so many more are done."""
        self.done += count
        self._context.progress(self.done, self.total, "files")

    def check(self) -> None:
        """Where the reading may be stopped: raises CancelledError."""
        self._context.check_stop()
        if self._path and time.monotonic() - self._since >= SLOW_SECONDS:
            self._since = time.monotonic()
            self._context.progress(self.done, self.total, "files", self._path)
