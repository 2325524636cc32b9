"""A reading process as its parent sees it: requests, answers, and why it is gone."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.core.platforms.jobs import Job
from engine.core.platforms.lockdown import LockedDownProcess, can_lock_down
from engine.core.platforms.pipes import PipeReader
from engine.core.platforms.processes import (
    describe_exit_code,
    has_used_its_time,
    own_session,
    python_environment,
)
from engine.core.records import Kind
from engine.core.subprocesses import import_path, python_command
from engine.core.text import size_text
from engine.corpus.sandbox.confinement import Confinement
from engine.corpus.sandbox.outcome import (
    HEADER,
    MAX_FRAME,
    Limits,
    Outcome,
    check_name,
    check_text,
    decode_finding,
)
from engine.corpus.sandbox.tesseract import Tesseract

_MAX_STDERR = 4000  # bytes, the last ones
# How long a process may take to load its libraries, and to end when it is killed.
_START_SECONDS = 60.0
_END_SECONDS = 3.0
# Variables that are set to 1, so that libraries start few threads, which take address space.
_THREAD_VARIABLES = (
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MALLOC_ARENA_MAX",
)
_VARIABLES_PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "HOME",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "VIRTUAL_ENV",
)


class WorkerDiedError(Exception):
    """The loss of a reading process; `kind` and `reason` say why the file it read is not read."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Clock:
    """The time that a file may take with all that is inside it; time for OCR is added to `end`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time has run out."""
        return time.monotonic() >= self.end


@dataclass(slots=True)
class FileReading:
    """The reading of one file, for which several processes may be needed.

    The parts of a file are the files inside it, named by their paths there.
    """

    path: Path
    format: str
    passwords: list[str]
    clock: Clock
    outcome: Outcome = field(default_factory=Outcome)
    # Parts at which a process was lost, and which are therefore left out.
    without: list[str] = field(default_factory=list)
    # Parts that were read to their end.
    done: set[str] = field(default_factory=set)
    # The part that is being read.
    member: str = ""
    # In the current process: the time that OCR took, and the characters in the names of parts.
    ocr_seconds: float = 0.0
    name_length: int = 0

    def begin(self) -> dict[str, Any]:
        """Begin with a new process, and return the request to it, still without a handle."""
        self.member = ""
        self.ocr_seconds = 0.0
        self.name_length = 0
        return {
            "path": str(self.path),
            "handle": None,
            "format": self.format,
            "without": [*self.without, *self.done],
            "passwords": self.passwords,
        }

    def begin_member(self, member: str, limits: Limits) -> None:
        """Note that another part is read now.

        Raises ValueError if the names of parts are too long.
        """
        self.name_length += len(member)
        if self.name_length > limits.names:
            raise ValueError("more names than a file may hold")
        is_inside_last = member.startswith(f"{self.member}/")
        if self.member and not is_inside_last:
            self.done.add(self.member)
        self.member = member


ReadingProcess = subprocess.Popen[bytes] | LockedDownProcess
"""A reading process; one that is locked down gets files as handles, not by their paths."""


class Child:
    """A reading process that has confined itself and waits for files.

    `used`: how many files it was asked to read. `confinement`: what the system refuses it. Raises
    RuntimeError if the process does not start, or does not confine itself.
    """

    def __init__(
        self,
        limits: Limits,
        ocr: Tesseract | None,
        process: ReadingProcess,
    ) -> None:
        assert process.stdout is not None
        self._limits = limits
        self._ocr = ocr
        self._job = Job(limits.memory)
        # A locked-down process has not begun yet; any other runs, but gets no file before it has
        # answered.
        is_in_job = self._job.add(process.pid)
        is_locked_down = isinstance(process, LockedDownProcess)
        if isinstance(process, LockedDownProcess):
            process.resume()
        self._answers = PipeReader(process.stdout)
        self.used = 0
        self.process = process
        self._stderr = b""
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()
        self._received = bytearray()
        try:
            ready = self._read_message(time.monotonic() + _START_SECONDS)
            del ready["type"]
            granted = Confinement(**ready)
            # The process does not know what its parent has done with it.
            self.confinement = replace(
                granted,
                job=is_in_job,
                restricted=is_locked_down,
                low_integrity=granted.low_integrity or is_locked_down,
            )
        except (WorkerDiedError, ValueError, KeyError, TypeError):
            self.end()
            raise RuntimeError(
                f"the reading process did not start: {self._stderr.decode('utf-8', 'replace')}"
            ) from None

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone; if it ends between two files, neither is to blame."""
        return self.process.poll() is not None

    def read(self, reading: FileReading) -> None:
        """Read a file.

        Raises WorkerDiedError if the process is lost while reading.
        """
        self.used += 1
        request = reading.begin()
        if isinstance(self.process, LockedDownProcess):
            try:
                request["handle"] = self.process.hand_over(reading.path)
            except OSError as error:
                if self.has_ended:
                    raise self._explain_exit() from None
                reading.outcome.note_inaccessible(error.strerror or str(error))
                return
        self._send({**request, "ocr": self._limits.ocr_seconds if self._ocr else None})
        is_done = False
        try:
            while not is_done:
                deadline = min(time.monotonic() + self._limits.seconds, reading.clock.end)
                is_done = self._handle_message(self._read_message(deadline), reading)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WorkerDiedError("damaged", "its reader answered nonsense") from None

    def _send(self, message: dict[str, Any]) -> None:
        """Send a message to the process, as a line of JSON."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write((json.dumps(message) + "\n").encode())
            self.process.stdin.flush()
        except OSError:
            raise self._explain_exit() from None

    def _recognise(self, message: dict[str, Any], reading: FileReading) -> None:
        """Read the picture in a message by OCR, and send its text to the process."""
        picture = base64.b64decode(message["data"])
        if self._ocr is None:
            raise ValueError("OCR is off")
        if reading.ocr_seconds > self._limits.ocr_seconds + self._limits.seconds:
            raise ValueError("it asks for more OCR than it may")
        started = time.monotonic()
        text, problem = self._ocr.read(
            picture,
            self._limits.memory,
            self._limits.seconds,
        )
        seconds = time.monotonic() - started
        reading.ocr_seconds += seconds
        reading.clock.end += seconds
        self._send({"text": text, "problem": problem})

    def _handle_message(self, message: dict[str, Any], reading: FileReading) -> bool:
        """Note in `reading` what a message says; return whether it is the last one of the file."""
        outcome = reading.outcome
        match message.get("type"):
            case "begin":
                reading.begin_member(check_text(message["member"]), self._limits)
            case "picture":
                self._recognise(message, reading)
            case "document" | "left out":
                outcome.keep(decode_finding(message), self._limits)
            case "failed":
                if message["kind"] == "out of memory":
                    raise WorkerDiedError("out of memory", self._describe_memory())
                outcome.give_up(check_name(message["kind"], Kind), check_text(message["reason"]))
                return True
            case "inaccessible":
                outcome.note_inaccessible(check_text(message["reason"]))
                return True
            case _:
                return True
        return False

    def _read_message(self, deadline: float) -> dict[str, Any]:
        """Return the next message.

        Raises WorkerDiedError if it does not come in time, and ValueError if it is malformed.
        """
        self._receive(HEADER.size, deadline)
        end = HEADER.size + HEADER.unpack_from(self._received)[0]
        if end > MAX_FRAME + HEADER.size:
            raise ValueError("too long an answer")
        self._receive(end, deadline)
        message = json.loads(self._received[HEADER.size : end].decode())
        del self._received[:end]
        return message if isinstance(message, dict) else {}

    def _receive(self, count: int, deadline: float) -> None:
        """Read until `count` bytes have arrived."""
        while len(self._received) < count:
            try:
                piece = self._answers.read(deadline - time.monotonic())
            except (OSError, ValueError):
                # The pool was closed at this moment, and with it the pipe.
                raise self._explain_exit() from None
            if piece is None:
                raise WorkerDiedError(
                    "timed out", f"it was not read within {self._limits.seconds} s"
                )
            if not piece:
                raise self._explain_exit()
            self._received += piece

    def _explain_exit(self) -> WorkerDiedError:
        """Return an error that says why the process is gone."""
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            # The process has closed its end of the pipe, but is still running.
            code = 0
        self._stderr_reader.join(1)
        stderr = self._stderr.decode("utf-8", "replace")
        if has_used_its_time(code):
            return WorkerDiedError(
                "timed out", f"it was not read within {self._limits.seconds} s of computing"
            )
        if "memory allocation of" in stderr or "MemoryError" in stderr:
            return WorkerDiedError("out of memory", self._describe_memory())
        limit = size_text(self._limits.memory)
        return WorkerDiedError(
            "crashed",
            f"its reader ended for an unknown reason ({describe_exit_code(code)}); it may hold"
            f" {limit} of memory",
        )

    def _describe_memory(self) -> str:
        """Return the reason for a file that needs too much memory."""
        return f"reading it needs more than {size_text(self._limits.memory)} of memory"

    def _read_stderr(self) -> None:
        """Keep the end of what the process writes to its standard error, until that is closed."""
        assert self.process.stderr is not None
        pipe = self.process.stderr
        while piece := pipe.read1(4096):  # type: ignore[attr-defined]
            self._stderr = (self._stderr + piece)[-_MAX_STDERR:]

    def end(self) -> None:
        """End the process, whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        self._job.close()
        self._stderr_reader.join(1)
        self._answers.close()
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        # This fails if there are bytes still to be written, as nothing reads them any more.
        with suppress(OSError):
            self.process.stdin.close()
        if not self._stderr_reader.is_alive():
            self.process.stderr.close()


def _build_environment() -> dict[str, str]:
    """Return the environment of a reading process, without anything secret.

    The reading process stores compiled modules for the next one, unless PYTHONDONTWRITEBYTECODE is
    set for this process.
    """
    variables = {name: os.environ[name] for name in _VARIABLES_PASSED_ON if name in os.environ}
    variables |= dict.fromkeys(_THREAD_VARIABLES, "1")
    variables |= python_environment()
    variables["PYTHONPATH"] = import_path()
    if sys.dont_write_bytecode:
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
    return variables


def start_reader(limits: Limits, *, lock_down: bool) -> ReadingProcess:
    """Start a reading process.

    On Linux it ends with the thread that has started it, so that thread must live as long as the
    process may. Raises OSError.
    """
    arguments = (
        limits.memory,
        limits.seconds,
        os.getpid(),
        int(lock_down),
    )
    command = python_command("engine.corpus.sandbox.worker", *map(str, arguments))
    environment = _build_environment()
    if lock_down:
        return LockedDownProcess(command, environment)
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        **own_session(),
    )


@dataclass(slots=True)
class LockdownTrial:
    """Whether reading processes can be locked down on this machine.

    `failure` is why one did not start; empty as long as none has failed.
    """

    failure: str = ""


LOCKDOWN = LockdownTrial()
"""The trial of this process; it spares each new reading process a start that would fail again."""


def start_child(
    limits: Limits,
    ocr: Tesseract | None,
    start: Callable[[bool], ReadingProcess],
    lockdown: LockdownTrial,
) -> Child:
    """Return a reading process, locked down if the system can do that and lets it start.

    `start`: calls `start_reader`; its argument says whether to lock the process down. If a process
    starts only without being locked down, `lockdown` notes why, and no further one is locked down.
    Raises RuntimeError or OSError if none starts.
    """
    failure = lockdown.failure
    if can_lock_down() and not failure:
        try:
            return Child(
                limits,
                ocr,
                start(True),
            )
        except (OSError, RuntimeError) as error:
            failure = _describe_failure(error)
    # If this one does not start either, the lockdown is not to blame, and nothing is noted.
    child = Child(
        limits,
        ocr,
        start(False),
    )
    lockdown.failure = failure
    return child


def _describe_failure(error: Exception) -> str:
    """Return the message of an error; if it holds a traceback, only the last line of it."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def find_confinement() -> Confinement:
    """Start a reading process, and return what the system refuses it.

    Raises RuntimeError if it does not start.
    """
    limits = Limits()
    child = start_child(
        limits,
        None,
        lambda lock_down: start_reader(limits, lock_down=lock_down),
        LockdownTrial(),
    )
    child.end()
    return child.confinement
