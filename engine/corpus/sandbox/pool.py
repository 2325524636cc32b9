"""The parent's side: several reading processes, watched from outside, ended on a time limit, and renewed now and then."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from engine.children import import_path
from engine.corpus.readers import Kind, LeftOut, ReadDocument
from engine.corpus.sandbox.libraries import private_folder
from engine.corpus.sandbox.nursery import Born, Nursery
from engine.corpus.sandbox.tesseract import Tesseract
from engine.corpus.sandbox.wire import HEADER, LONGEST_FRAME, finding

Item = TypeVar("Item")
Result = TypeVar("Result")
_STDERR_KEPT = 4000
_MOST_CRASHES = 5  # within one file: then the rest of it is given up
_START_SECONDS = 60.0
_PATIENCE = 0.5  # seconds
_AHEAD, _MOST_AHEAD = (
    4,
    64,
)  # items a process: still to be done, and with those that are done while the first takes long
_MOST_HELD = 2**26  # characters of text: what came of items after the first, before it is done
_ONE_THREAD = (
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MALLOC_ARENA_MAX",
)
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "HOME", "SYSTEMROOT", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each reading process: address space in bytes, and files until it is renewed. `seconds`: for a file, or one thing
    inside it; a file as a whole has `whole` times as many, and a second more for each MB. `ocr_seconds`: of OCR, for a file.
    """

    memory: int = 2 * 2**30
    seconds: int = 60
    files: int = 500
    ocr_seconds: int = 1800
    whole: int = 20

    def of_whole(self, size: int) -> float:
        """Seconds for a file of `size` bytes and all that is inside it, OCR apart."""
        return self.seconds * self.whole + size / 1e6


@dataclass(slots=True)
class Outcome:
    """What came of one file: its documents and what inside it was left out; or `kind` and `reason` why it gave nothing.

    `closed`: the system did not let us read it, which says nothing about its content.
    """

    documents: list[ReadDocument] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    kind: Kind = ""
    reason: str = ""
    closed: bool = False
    _seen: set[str] = field(default_factory=set)

    def keep(self, found: ReadDocument | LeftOut) -> None:
        """Add a finding; one that was told before, as a second reading of a file does, changes nothing."""
        if found.member in self._seen:
            return
        self._seen.add(found.member)
        if isinstance(found, LeftOut):
            self.left_out.append(found)
        else:
            self.documents.append(found)

    @property
    def length(self) -> int:
        """Characters of all its documents."""
        return sum(len(document.text) for document in self.documents)

    def give_up(self, kind: Kind, reason: str) -> None:
        """The rest of the file cannot be read: what came of it before stays."""
        if self.documents:
            self.left_out.append(LeftOut("…", "quarantined", kind, f"the rest was given up: {reason}"))
        else:
            self.kind, self.reason = kind, reason


class _Died(Exception):
    """`by_file`: whether the file that was read may have to do with it."""

    def __init__(self, kind: Kind, reason: str, *, by_file: bool = True) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.by_file = kind, reason, by_file


class _Clock:
    """The time that a file has as a whole, OCR apart."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.end = seconds, time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end


class _Sum:
    """A number that several threads add to."""

    def __init__(self) -> None:
        self.total, self._lock = 0, threading.Lock()

    def add(self, number: int) -> None:
        with self._lock:
            self.total += number


class Pool:
    """Reads files in up to `processes` child processes. They are started when they are first needed."""

    def __init__(
        self, processes: int, limits: Limits | None = None, passwords: Sequence[str] = (),
        ocr: Tesseract | None = None,
    ) -> None:  # fmt: skip
        self._ocr = ocr
        self._limits, self._passwords = limits or Limits(), list(passwords)
        self._processes = max(1, processes)
        self._threads = ThreadPoolExecutor(self._processes, thread_name_prefix="reading")
        self._own = threading.local()
        self._children: set[_Child] = set()
        self._nurseries: list[Nursery] = []
        self._closed = False
        self.offline = True

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], while_waiting: Callable[[], None] = lambda: None,
        weight: Callable[[Result], int] = lambda _: 0,
    ) -> Iterator[Result]:  # fmt: skip
        """`work` done for items in the pool's threads, in order, ahead of who asks: a few items, and more while the first of
        them takes long, so that one slow file leaves no process idle. It may call `read`. `weight` of a result in characters
        bounds what is held by that.

        `while_waiting` is called now and then, and may raise: a scan of many pages takes its time.
        """

        few, most = _AHEAD * self._processes, _MOST_AHEAD * self._processes
        room, held = threading.Semaphore(few), _Sum()
        waiting: deque[Future[Result]] = deque()

        def first() -> Result:
            while not waiting[0].done() and not wait([waiting[0]], _PATIENCE).done:
                while_waiting()
            result = waiting.popleft().result()
            held.add(-weight(result))
            return result

        def is_done(future: Future[Result]) -> None:
            if not future.cancelled() and not future.exception():
                held.add(weight(future.result()))
            room.release()

        for item in items:
            while len(waiting) >= few and (waiting[0].done() or len(waiting) >= most or held.total > _MOST_HELD):
                yield first()
            while not room.acquire(timeout=_PATIENCE):
                while_waiting()
            waiting.append(self._threads.submit(work, item))
            waiting[-1].add_done_callback(is_done)
        while waiting:
            yield first()

    def read(self, path: Path, format: str) -> Outcome:
        """What is in one file. Whatever happens to the child process is told in the outcome."""
        outcome, crashes = Outcome(), 0
        clock = _Clock(self._limits.of_whole(_size(path)))
        without: list[str] = []
        done: set[str] = set()
        while not self._closed:
            child = self._child()
            try:
                child.read(path, format, [*without, *done], outcome, done, self._passwords, clock)
                return outcome
            except _Died as death:
                self._drop(child)
                if clock.is_over:
                    outcome.give_up("timed out", f"not all that is inside it was read within {clock.seconds:,.0f} s")
                    return outcome
                if not death.by_file:
                    continue
                crashes += 1
                if child.member:
                    without.append(child.member)
                    outcome.keep(LeftOut(child.member, "quarantined", death.kind, death.reason))
                if not child.member or crashes >= _MOST_CRASHES:
                    outcome.give_up(death.kind, death.reason)
                    return outcome
        return Outcome(reason="the reading was stopped", closed=True)

    def close(self) -> None:
        """End all child processes."""
        self._closed = True
        if self._ocr is not None:
            self._ocr.stop()
        for child in list(self._children):
            child.end()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in list(self._children):
            child.end()
        for nursery in self._nurseries:
            nursery.end()

    def _child(self) -> _Child:
        child: _Child | None = getattr(self._own, "child", None)
        if child is not None and child.used >= self._limits.files:
            self._drop(child)
            child = None
        if child is None:
            child = self._own.child = _Child(self._limits, self._ocr, self._born() or _started(self._limits))
            self._children.add(child)
            self.offline = self.offline and child.offline
        return child

    def _born(self) -> Born | None:
        """A process of this thread's nursery; None where there can be none."""
        if sys.platform != "linux":
            return None
        nursery: Nursery | None = getattr(self._own, "nursery", None)
        if nursery is None:
            nursery = self._own.nursery = Nursery([*_command(self._limits), "nursery"], _environment())
            self._nurseries.append(nursery)
        return nursery.bear()

    def _drop(self, child: _Child) -> None:
        child.end()
        self._children.discard(child)
        self._own.child = None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _command(limits: Limits) -> list[str]:
    # -P: without it, modules of the folder that the user stands in would come before the installed ones
    return [sys.executable, "-P", "-m", "engine.corpus.sandbox.worker", str(limits.memory), str(limits.seconds)]


def _environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= dict.fromkeys(_ONE_THREAD, "1") | {"PYTHONPATH": import_path(), "PYTHONDONTWRITEBYTECODE": "1"}
    return environment | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(private_folder()))


def _started(limits: Limits) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        _command(limits), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(),
        start_new_session=True,
    )  # fmt: skip


class _Child:
    """One reading process."""

    def __init__(self, limits: Limits, ocr: Tesseract | None, process: subprocess.Popen[bytes] | Born) -> None:
        self._limits, self._ocr, self._clock = limits, ocr, _Clock(_START_SECONDS)
        self.used, self.member = 0, ""
        self._process = process
        self._said = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._buffer = bytearray()
        try:
            self.offline = bool(self._next(time.monotonic() + _START_SECONDS).get("offline"))
        except _Died:
            self.end()
            raise RuntimeError(f"the reading process did not start: {self._said.decode('utf-8', 'replace')}") from None

    def read(
        self, path: Path, format: str, without: list[str], outcome: Outcome, done: set[str], passwords: list[str],
        clock: _Clock,
    ) -> None:  # fmt: skip
        """Read one file into `outcome`. Raises _Died where the process is lost by it."""
        self.used, self.member, self._clock = self.used + 1, "", clock
        asked = {"path": str(path), "format": format, "without": without, "passwords": passwords}
        self._tell({**asked, "ocr": self._limits.ocr_seconds if self._ocr else None})
        while self._take(self._next(min(time.monotonic() + self._limits.seconds, clock.end)), outcome, done):
            pass

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(message) + "\n").encode())
            self._process.stdin.flush()
        except OSError:
            raise self._death() from None

    def _recognise(self, message: dict[str, Any]) -> None:
        """Have a picture read, and tell the process what is in it."""
        try:
            picture = base64.b64decode(message["data"])
        except (ValueError, KeyError, TypeError):
            raise _Died("damaged", "its reader answered nonsense") from None
        if self._ocr is None:
            raise _Died("damaged", "its reader answered nonsense")
        started = time.monotonic()
        text, problem = self._ocr.read(picture, self._limits.memory, self._limits.seconds)
        self._clock.end += time.monotonic() - started
        self._tell({"text": text, "problem": problem})

    def _take(self, message: dict[str, Any], outcome: Outcome, done: set[str]) -> bool:
        """Note what a message tells; returns whether more are to come."""
        match message.get("told"):
            case "begin":
                begun = str(message["member"])
                if self.member and not begun.startswith(f"{self.member}/"):
                    done.add(self.member)
                self.member = begun
            case "picture":
                self._recognise(message)
            case "document" | "left out":
                try:
                    found = finding(message)
                except (ValueError, KeyError, TypeError):
                    raise _Died("damaged", "its reader answered nonsense") from None
                outcome.keep(found)
            case "failed":
                if message["kind"] == "out of memory":
                    raise _Died("out of memory", self._out_of_memory())
                outcome.give_up(message["kind"], str(message["reason"]))
                return False
            case "closed":
                outcome.closed, outcome.reason = True, str(message["reason"]).lower()
                return False
            case _:
                return False
        return True

    def _next(self, deadline: float) -> dict[str, Any]:
        size = HEADER.unpack(self._bytes(HEADER.size, deadline))[0]
        if size > LONGEST_FRAME:
            raise _Died("damaged", "its reader answered nonsense")
        try:
            message = json.loads(self._bytes(size, deadline))
        except ValueError:
            raise _Died("damaged", "its reader answered nonsense") from None
        return message if isinstance(message, dict) else {}

    def _bytes(self, count: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while len(self._buffer) < count:
            left = deadline - time.monotonic()
            try:
                ready = left > 0 and bool(select.select([pipe], [], [], left)[0])
                piece = os.read(pipe, 2**20) if ready else b""
            except OSError:  # the pool was closed at this moment, and the pipe with it
                raise self._death() from None
            if not ready:
                raise _Died("timed out", f"it was not read within {self._limits.seconds} s")
            if not piece:
                raise self._death()
            self._buffer += piece
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _death(self) -> _Died:
        """Why the process is gone."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        self._listener.join(1)
        said = self._said.decode("utf-8", "replace")
        if isinstance(self._process, Born) and self._process.is_orphan:
            return _Died("damaged", "the process that its reader came from ended", by_file=False)
        if code == -signal.SIGXCPU:
            return _Died("timed out", f"it was not read within {self._limits.seconds} s of computing")
        if "memory allocation of" in said or "MemoryError" in said or code == -signal.SIGKILL:
            return _Died("out of memory", self._out_of_memory())
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return _Died("damaged", f"its reader crashed ({name})")

    def _out_of_memory(self) -> str:
        return f"reading it needs more than {self._limits.memory / 1e6:,.0f} MB of memory"

    def _listen(self) -> None:
        assert self._process.stderr is not None
        pipe = self._process.stderr
        while piece := pipe.read1(4096):  # type: ignore[attr-defined]
            self._said = (self._said + piece)[-_STDERR_KEPT:]

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join(1)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):  # what was still to be written has no reader any more
                    pipe.close()
