"""Progress of the reading in files, and the file that holds it up."""

from __future__ import annotations

import time

from engine.project.stage import StageContext


class FileProgress:
    """Reports how many files are done, and names a file that takes `slow_seconds` or longer.

    `done`: how many files count as done already, as they were read in earlier runs.
    """

    def __init__(
        self,
        context: StageContext,
        done: int,
        total: int,
        slow_seconds: float,
    ) -> None:
        self._context = context
        self._slow_seconds = slow_seconds
        self.done = done
        self.total = total
        self._path = ""
        self._since = 0.0

    @property
    def left(self) -> int:
        """The number of files that are not read yet."""
        return self.total - self.done

    def turn_to(self, path: str) -> None:
        """Note the path of the file that is read now; empty for none."""
        if path != self._path:
            self._path = path
            self._since = time.monotonic()

    def add(self, count: int) -> None:
        """Report that `count` more files are done."""
        self.done += count
        self._context.progress(
            self.done,
            self.total,
            "files",
        )

    def check(self) -> None:
        """Let the reading be stopped here, and name a file that takes long.

        Raises CancelledError.
        """
        self._context.check_stop()
        if self._path and time.monotonic() - self._since >= self._slow_seconds:
            self._since = time.monotonic()
            self._context.progress(
                self.done,
                self.total,
                "files",
                self._path,
            )
