"""The parent's side: several reading processes, which it watches, ends and renews."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from engine.core.disk import get_file_size
from engine.corpus.formats import LeftOut
from engine.corpus.sandbox.child import (
    LOCKDOWN,
    Child,
    Clock,
    FileReading,
    ReadingProcess,
    WorkerDiedError,
    start_child,
    start_reader,
)
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.tesseract import Tesseract

Item = TypeVar("Item")
Result = TypeVar("Result")
# Items per process that are handed over and not done.
_WAITING = 4
# Items per process, including those that are done while the first takes long.
_AHEAD = 64
MAX_HELD = 2**26
# Results per wake-up.
_TOGETHER = 8
WAKE_SECONDS = 0.1
# After so many crashes within one file, the rest of it is given up.
_MAX_CRASHES = 5


class WorkerSlot:
    """A place for one reading process after another."""

    def __init__(self, limits: Limits, ocr: Tesseract | None, starter: ThreadPoolExecutor) -> None:
        self._limits = limits
        self._ocr = ocr
        self._starter = starter
        self.child: Child | None = None

    def get_or_start(self) -> Child:
        """Return the current process, and start it if necessary.

        Raises RuntimeError if none can be started.
        """
        if self.child is not None and (
            self.child.used >= self._limits.files or self.child.has_ended
        ):
            self.leave()
        if self.child is None:
            self.child = start_child(self._limits, self._ocr, self._start, LOCKDOWN)
        return self.child

    def _start(self, lock_down: bool) -> ReadingProcess:
        return self._starter.submit(start_reader, self._limits, lock_down=lock_down).result()

    def leave(self) -> None:
        """End the process, from any thread; the next use starts another."""
        if (child := self.child) is not None:
            child.end()
        self.child = None


class Pool:
    """A pool that reads files in up to `processes` child processes.

    They are started when they are first needed.
    """

    def __init__(
        self,
        processes: int,
        limits: Limits | None = None,
        passwords: Sequence[str] = (),
        ocr: Tesseract | None = None,
    ) -> None:
        self._ocr = ocr
        self._limits = limits or Limits()
        self._passwords = list(passwords)
        self._processes = max(1, processes)
        # Its one thread starts all reading processes, and lives as long as they do.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="starting")
        self._threads = ThreadPoolExecutor(self._processes, thread_name_prefix="reading")
        self._lock = threading.Lock()
        self._slots: list[WorkerSlot] = []
        self._free: list[WorkerSlot] = []
        self._closed = False

    def map(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        while_waiting: Callable[[], None] = lambda: None,
        weight: Callable[[Result], int] = lambda _: 0,
        max_held: int = MAX_HELD,
        wake_seconds: float = WAKE_SECONDS,
    ) -> Iterator[Result]:
        """Yield `work` of each item in order, done in the pool's threads ahead of the consumer.

        `work` may call `read`. No more items are handed over while the sum of `weight`, in
        characters, of finished results that wait exceeds `max_held`. `while_waiting` is called
        every `wake_seconds`, and may raise. Only one `map` may run at a time. Raises CancelledError
        if the pool is closed before all items are begun.
        """
        turns: deque[Future[Result]] = deque()
        source = iter(items)
        done_next = threading.Event()

        def hand_over() -> None:
            done = [turn for turn in turns if turn.done()]
            held = sum(weight(turn.result()) for turn in done if turn.exception() is None)
            if held > max_held or self._closed:
                return
            unfinished = len(turns) - len(done)
            room = min(
                _WAITING * self._processes - unfinished, _AHEAD * self._processes - len(turns)
            )
            for item in itertools.islice(source, max(0, room)):
                turns.append(self._threads.submit(work, item))

        try:
            while True:
                hand_over()
                if not turns:
                    break
                left = [turn for turn in turns if not turn.done()]
                if turns[0].done() or not left:
                    yield turns.popleft().result()
                    continue
                # One wake-up serves several results: threads that wake each other cost more than a
                # small file.
                for turn in (left[:_TOGETHER][-1], left[len(left) // 2]):
                    turn.add_done_callback(lambda _: done_next.set())
                if not done_next.wait(wake_seconds):
                    while_waiting()
                done_next.clear()
            if self._closed:
                raise CancelledError
        finally:
            for turn in turns:
                turn.cancel()

    def read(self, path: Path, format: str) -> Outcome:
        """Return what is in one file, and what happened to the child process."""
        with self._lock:
            if not self._free:
                self._slots.append(WorkerSlot(self._limits, self._ocr, self._starter))
                self._free.append(self._slots[-1])
            slot = self._free.pop()
        try:
            return self._read(slot, path, format)
        finally:
            with self._lock:
                self._free.append(slot)

    def _read(self, slot: WorkerSlot, path: Path, format: str) -> Outcome:
        crashes = 0
        reading: FileReading | None = None
        while not self._closed:
            child = slot.get_or_start()
            if reading is None:
                # The start of the process does not count.
                clock = Clock(self._limits.of_whole(get_file_size(path)))
                reading = FileReading(path, format, self._passwords, clock)
            if self._closed:
                break
            outcome = reading.outcome
            try:
                child.read(reading)
                return outcome
            except WorkerDiedError as death:
                slot.leave()
                if reading.clock.is_over:
                    seconds = reading.clock.seconds
                    reason = f"not all that is inside it was read within {seconds:,.0f} s"
                    outcome.give_up("timed out", reason)
                    return outcome
                crashes += 1
                member = reading.member
                if member:
                    reading.without.append(member)
                    lost = LeftOut(member, "quarantined", death.kind, death.reason)
                    outcome.keep(lost, self._limits)
                if not member or crashes >= _MAX_CRASHES:
                    outcome.give_up(death.kind, death.reason)
                    return outcome
        return Outcome(reason="the reading was stopped", inaccessible=True)

    def close(self) -> None:
        """End all child processes."""
        self._closed = True
        if self._ocr is not None:
            self._ocr.stop()
        for slot in list(self._slots):
            slot.leave()
        self._threads.shutdown(wait=True, cancel_futures=True)
        # Processes may have been started meanwhile.
        for slot in self._slots:
            slot.leave()
        self._starter.shutdown()

    @property
    def is_closed(self) -> bool:
        """Whether all work should end."""
        return self._closed

    @property
    def lockdown_failure(self) -> str:
        """Why readers on this machine are confined less than they could be; empty if they are not.

        It is known once a file was read.
        """
        return LOCKDOWN.failure

    @property
    def children(self) -> set[Child]:
        """The current reading processes."""
        return {child for slot in list(self._slots) if (child := slot.child) is not None}
