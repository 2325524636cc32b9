"""The parent's side: several reading processes, watched from outside, ended on a time limit, and renewed now and then."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from engine.corpus.formats import LeftOut
from engine.corpus.sandbox.child import Child, Clock, WorkerDiedError, command, environment, started
from engine.corpus.sandbox.fork_server import ForkServer
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.tesseract import Tesseract

Item = TypeVar("Item")
Result = TypeVar("Result")
_WAITING = 4  # items a process that are handed over and not begun
_AHEAD = 64  # items a process, with those that are done while the first takes long
MAX_HELD = 2**26  # of weight: what came of items after the first, before it is done
_TOGETHER = 8  # results
WAKE_SECONDS = 0.1
_MAX_CRASHES = 5  # within one file: then the rest of it is given up


class WorkerSlot:
    """A place that one reading process takes after the other."""

    def __init__(self, limits: Limits, ocr: Tesseract | None, fork_server: ForkServer) -> None:
        self._limits, self._ocr, self._fork_server = limits, ocr, fork_server
        self.child: Child | None = None

    def taken(self) -> Child:
        """The process that reads now. Raises RuntimeError where none can be started."""
        if self.child is not None and (self.child.used >= self._limits.files or self.child.has_ended):
            self.leave()
        if self.child is None:
            self.child = Child(self._limits, self._ocr, self._fork_server.fork() or started(self._limits))
        return self.child

    def leave(self) -> None:
        """End the process, from any thread; another takes its place when one is wanted."""
        if (child := self.child) is not None:
            child.end()
        self.child = None


class _Load:
    """How many items are handed over and not begun, and how much that is done and not taken weighs."""

    def __init__(self) -> None:
        self.waiting = self.held = 0
        self.wake, self._lock = threading.Event(), threading.Lock()

    def add(self, *, waiting: int = 0, held: int = 0) -> None:
        with self._lock:
            self.waiting, self.held = self.waiting + waiting, self.held + held

    def done(self, work: Callable[[Item], Result], item: Item, weight: Callable[[Result], int]) -> Result:
        self.add(waiting=-1)
        if self.waiting <= 1:
            self.wake.set()
        result = work(item)
        self.add(held=weight(result))
        return result


class Pool:
    """Reads files in up to `processes` child processes. They are started when they are first needed."""

    def __init__(
        self, processes: int, limits: Limits | None = None, passwords: Sequence[str] = (),
        ocr: Tesseract | None = None,
    ) -> None:  # fmt: skip
        self._ocr = ocr
        self._limits, self._passwords = limits or Limits(), list(passwords)
        self._processes = max(1, processes)
        self._fork_server = ForkServer([*command(self._limits), "fork_server"], environment(compiles=True))
        self._threads = ThreadPoolExecutor(self._processes, thread_name_prefix="reading")
        self._lock = threading.Lock()
        self._slots: list[WorkerSlot] = []
        self._free: list[WorkerSlot] = []
        self._closed = False
        self.offline = True

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], while_waiting: Callable[[], None] = lambda: None,
        weight: Callable[[Result], int] = lambda _: 0,
    ) -> Iterator[Result]:  # fmt: skip
        """`work` done for items in the pool's threads, in order, ahead of who asks, so that one slow file leaves no process
        idle. It may call `read`. `weight` of a result in characters bounds what is held by that. One `map` at a time.

        `while_waiting` is called now and then, and may raise: a scan of many pages takes its time. Raises CancelledError where the
        pool is closed before all items are begun.
        """
        turns: deque[Future[Result]] = deque()
        source, load = iter(items), _Load()

        def hand_over() -> None:
            room = min(_WAITING * self._processes - load.waiting, _AHEAD * self._processes - len(turns))
            for item in itertools.islice(source, max(0, room) if load.held <= MAX_HELD and not self._closed else 0):
                load.add(waiting=1)
                turns.append(self._threads.submit(load.done, work, item, weight))

        try:
            while True:
                hand_over()
                if not turns:
                    break
                if turns[0].done():
                    result = turns.popleft().result()
                    load.add(held=-weight(result))
                    yield result
                else:  # threads that wake each other cost more than a small file does
                    near = [turn for turn in itertools.islice(turns, _TOGETHER) if not turn.done()]
                    (near[-1] if near else turns[0]).add_done_callback(lambda _: load.wake.set())
                    if not load.wake.wait(WAKE_SECONDS):
                        while_waiting()
                    load.wake.clear()
            if self._closed:
                raise CancelledError
        finally:
            for turn in turns:
                turn.cancel()

    def read(self, path: Path, format: str) -> Outcome:
        """What is in one file. The outcome says what happened to the child process."""
        with self._lock:
            if not self._free:
                self._slots.append(WorkerSlot(self._limits, self._ocr, self._fork_server))
                self._free.append(self._slots[-1])
            slot = self._free.pop()
        try:
            return self._read(slot, path, format)
        finally:
            with self._lock:
                self._free.append(slot)

    def _read(self, slot: WorkerSlot, path: Path, format: str) -> Outcome:
        outcome, crashes = Outcome(), 0
        clock: Clock | None = None
        without: list[str] = []
        done: set[str] = set()
        while not self._closed:
            child = slot.taken()
            clock = clock or Clock(self._limits.of_whole(_size(path)))
            self.offline = self.offline and child.offline
            if self._closed:
                break
            try:
                child.read(path, format, [*without, *done], outcome, done, self._passwords, clock)
                return outcome
            except WorkerDiedError as death:
                slot.leave()
                if clock.is_over:
                    outcome.give_up("timed out", f"not all that is inside it was read within {clock.seconds:,.0f} s")
                    return outcome
                if not death.by_file:
                    continue
                crashes += 1
                if child.member:
                    without.append(child.member)
                    outcome.keep(LeftOut(child.member, "quarantined", death.kind, death.reason))
                if not child.member or crashes >= _MAX_CRASHES:
                    outcome.give_up(death.kind, death.reason)
                    return outcome
        return Outcome(reason="the reading was stopped", closed=True)

    def close(self) -> None:
        """End all child processes."""
        self._closed = True
        if self._ocr is not None:
            self._ocr.stop()
        for slot in list(self._slots):
            slot.leave()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for slot in self._slots:  # what was just started
            slot.leave()
        self._fork_server.end()

    @property
    def children(self) -> set[Child]:
        """The reading processes there are now."""
        return {child for slot in list(self._slots) if (child := slot.child) is not None}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
