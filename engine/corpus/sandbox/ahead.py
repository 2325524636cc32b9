"""Items done by several threads, ahead of who takes what came of them, in order.

Threads that wake each other cost more than a small file does. So who takes is woken for several results at a time, or where a
thread would have nothing to do without it; and looks by itself now and then.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_WAITING = 16  # items a thread that are handed over and not begun
_MAX_STARTED = 64  # items a thread, with those that are done while the first takes long
MAX_HELD = 2**26  # of weight: what came of items after the first, before it is done
_TOGETHER = 8  # results
WAKE_SECONDS = 0.1  # seconds


@dataclass(slots=True)
class _Turn(Generic[Item, Result]):
    item: Item
    results: list[Result]
    problem: BaseException | None = None
    weight: int = 0
    is_done: bool = False


class Ahead(Generic[Item, Result]):
    """`work` done for each of `items` by `threads` threads that call `help`. No item is begun after the first while all that is
    done and was not taken weighs more than may be held.
    """

    def __init__(
        self, work: Callable[[Item], Result], items: Iterable[Item], weight: Callable[[Result], int], threads: int
    ) -> None:
        self._work, self._items, self._weight, self._threads = work, iter(items), weight, threads
        self._lock = threading.Lock()
        self._to_begin, self._to_take = threading.Condition(self._lock), threading.Condition(self._lock)
        self._turns: deque[_Turn[Item, Result]] = deque()
        self._waiting: deque[_Turn[Item, Result]] = deque()
        self._done = self._held = self._idle = 0
        self._all_handed_over = self._stopped = False

    def help(self) -> None:
        """Work until nothing is left to be done. Called in each of the threads."""
        while (turn := self._begun()) is not None:
            try:
                result = self._work(turn.item)
                turn.weight = self._weight(result)
                turn.results.append(result)
            except BaseException as problem:  # raised where the result is taken
                turn.problem = problem
            self._finish(turn)

    def results(self, while_waiting: Callable[[], None]) -> Iterator[Result]:
        """What came of the items, in order; raises what `work` raised, and CancelledError where `stop` was called before all were
        begun. `while_waiting` is called now and then, and may raise.
        """
        try:
            while self._hand_over():
                turn = self._first()
                if turn is None:
                    while_waiting()
                elif turn.problem is not None:
                    raise turn.problem
                else:
                    yield turn.results.pop()
            if not self._all_handed_over:
                raise CancelledError
        finally:
            self.stop()

    def stop(self) -> None:
        """Let the threads go; what they have begun is still done."""
        with self._lock:
            self._stopped = True
            self._to_begin.notify_all()
            self._to_take.notify()

    def _begun(self) -> _Turn[Item, Result] | None:
        with self._lock:
            while not self._stopped:
                if self._waiting and (self._held <= MAX_HELD or self._waiting[0] is self._turns[0]):
                    turn = self._waiting.popleft()
                    if not self._all_handed_over and len(self._waiting) == self._threads:
                        self._to_take.notify()
                    return turn
                if not self._waiting and self._all_handed_over:
                    return None
                self._idle += 1
                self._to_take.notify()
                self._to_begin.wait()
                self._idle -= 1
            self._to_take.notify()
        return None

    def _finish(self, turn: _Turn[Item, Result]) -> None:
        with self._lock:
            turn.is_done = True
            self._done, self._held = self._done + 1, self._held + turn.weight
            if self._turns[0].is_done and (self._done >= _TOGETHER or not self._waiting):
                self._to_take.notify()

    def _hand_over(self) -> bool:
        """Hand over items until enough wait. Returns whether any are left to be taken."""
        few = len(self._waiting) <= self._threads * _WAITING // 2
        while few and not self._stopped and not self._all_handed_over and len(self._waiting) < self._threads * _WAITING:
            if len(self._turns) >= self._threads * _MAX_STARTED:
                break
            try:
                turn: _Turn[Item, Result] = _Turn(next(self._items), [])
            except StopIteration:
                self._all_handed_over = True
                with self._lock:
                    self._to_begin.notify_all()
                break
            with self._lock:
                self._turns.append(turn)
                self._waiting.append(turn)
                if self._idle:
                    self._to_begin.notify()
        return bool(self._turns)

    def _first(self) -> _Turn[Item, Result] | None:
        """The first turn, once it is done; None where that takes a while."""
        with self._lock:
            if self._stopped and self._waiting and self._waiting[0] is self._turns[0]:
                raise CancelledError
            if not self._turns[0].is_done:
                self._to_take.wait(WAKE_SECONDS)
            if not self._turns[0].is_done:
                return None
            turn = self._turns.popleft()
            self._done, self._held = self._done - 1, self._held - turn.weight
            if self._idle:
                self._to_begin.notify_all()
            return turn
