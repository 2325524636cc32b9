"""Several reading processes, which their parent watches, ends and replaces."""

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
# Maximum number of unfinished items, for each process, that the threads have been given.
_MAX_UNFINISHED = 4
# Maximum number of items, for each process, that were handed over and whose results were not
# yielded yet. Results are yielded in order, so finished ones pile up while the first one takes
# long.
_MAX_AHEAD = 64
# No further items are handed over while finished results hold more characters than this.
MAX_HELD = 2**26
# The consumer is woken up after so many results, not after each of them.
_RESULTS_PER_WAKE_UP = 8
WAKE_SECONDS = 0.1
# After so many crashes within one file, the rest of it is given up.
_MAX_CRASHES = 5


class WorkerSlot:
    """A place for one reading process after another.

    `starter`: the thread in which all processes of the pool are started.
    """

    def __init__(
        self,
        limits: Limits,
        ocr: Tesseract | None,
        starter: ThreadPoolExecutor,
    ) -> None:
        self._limits = limits
        self._ocr = ocr
        self._starter = starter
        self.child: Child | None = None

    def get_or_start(self) -> Child:
        """Return the current process; start a new one if there is none.

        A process that has ended, or has read as many files as it may, is replaced. Raises
        RuntimeError if none can be started.
        """
        child = self.child
        if child is not None and (child.used >= self._limits.files or child.has_ended):
            self.leave()
        if self.child is None:
            self.child = start_child(
                self._limits,
                self._ocr,
                self._start,
                LOCKDOWN,
            )
        return self.child

    def _start(self, lock_down: bool) -> ReadingProcess:
        """Start a process in the thread of `starter`."""
        return self._starter.submit(start_reader, self._limits, lock_down=lock_down).result()

    def leave(self) -> None:
        """End the process, from any thread; the next use starts another."""
        # Another thread may set the attribute to None meanwhile.
        child = self.child
        if child is not None:
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
        """Yield `work(item)` for each item in order, done in the threads ahead of the consumer.

        `work`: may call `read`.
        `while_waiting`: is called every `wake_seconds` while the next result is not there, and may
        raise.
        `weight`: the characters of a result. While the finished results that wait have more than
        `max_held` characters in all, no further items are handed over.

        Only one `map` may run at a time. Raises CancelledError if the pool is closed before all
        items are begun.
        """
        # The results that were not yielded yet, finished or not, in the order of the items.
        futures: deque[Future[Result]] = deque()
        remaining = iter(items)
        wake_up = threading.Event()

        def hand_over() -> None:
            """Give the threads as many more items as the limits allow."""
            done = [future for future in futures if future.done()]
            held = sum(weight(future.result()) for future in done if future.exception() is None)
            if held > max_held or self._closed:
                return
            unfinished = len(futures) - len(done)
            room = min(
                _MAX_UNFINISHED * self._processes - unfinished,
                _MAX_AHEAD * self._processes - len(futures),
            )
            for item in itertools.islice(remaining, max(0, room)):
                futures.append(self._threads.submit(work, item))

        try:
            while True:
                hand_over()
                if not futures:
                    break
                unfinished = [future for future in futures if not future.done()]
                if futures[0].done() or not unfinished:
                    yield futures.popleft().result()
                    continue
                # One wake-up serves several results: threads that wake each other cost more than a
                # small file.
                last_awaited = unfinished[:_RESULTS_PER_WAKE_UP][-1]
                for future in (last_awaited, unfinished[len(unfinished) // 2]):
                    future.add_done_callback(lambda _: wake_up.set())
                if not wake_up.wait(wake_seconds):
                    while_waiting()
                wake_up.clear()
            if self._closed:
                raise CancelledError
        finally:
            for future in futures:
                future.cancel()

    def read(self, path: Path, format: str) -> Outcome:
        """Read a file in a child process, and return what it gave."""
        with self._lock:
            if self._free:
                slot = self._free.pop()
            else:
                slot = WorkerSlot(
                    self._limits,
                    self._ocr,
                    self._starter,
                )
                self._slots.append(slot)
        try:
            return self._read(slot, path, format)
        finally:
            with self._lock:
                self._free.append(slot)

    def _read(
        self,
        slot: WorkerSlot,
        path: Path,
        format: str,
    ) -> Outcome:
        """Read a file; each time that a process is lost at one of its parts, go on with another."""
        crashes = 0
        reading: FileReading | None = None
        while not self._closed:
            child = slot.get_or_start()
            if reading is None:
                # The clock begins here, so that the start of the first process does not count.
                clock = Clock(self._limits.whole_file_seconds(get_file_size(path)))
                reading = FileReading(
                    path,
                    format,
                    self._passwords,
                    clock,
                )
            # The pool may have been closed while the process started.
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
                    lost = LeftOut(
                        member,
                        "quarantined",
                        death.kind,
                        death.reason,
                    )
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
        """Why reading processes on this machine could not be locked down; empty if they could.

        It is known once a file was read.
        """
        return LOCKDOWN.failure

    @property
    def children(self) -> set[Child]:
        """The current reading processes."""
        children = [slot.child for slot in list(self._slots)]
        return {child for child in children if child is not None}
