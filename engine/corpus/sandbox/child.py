"""One reading process as its parent sees it: what it is asked and what it answers, and why it is
gone where it is.
"""

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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.records import Kind
from engine.core.subprocesses import describe_exit_code, import_path
from engine.core.text import size_text
from engine.corpus.sandbox.fork_server import ForkedProcess
from engine.corpus.sandbox.outcome import (
    HEADER,
    MAX_FRAME,
    MOST_NAMES,
    Limits,
    Outcome,
    finding,
    known,
    text_of,
)
from engine.corpus.sandbox.tesseract import Tesseract

_STDERR_KEPT = 4000
_PIECE = (
    2**16
    # bytes: what a pipe holds; room for more would be taken from the system and given back at every
    # read
)
_START_SECONDS = 60.0
_END_SECONDS = 3.0
_ONE_THREAD = (
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MALLOC_ARENA_MAX",
)
_PASSED_ON = (
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
    """A reading process is lost.

    `by_file`: whether the file that was read may have to do with it.
    """

    def __init__(self, kind: Kind, reason: str, *, by_file: bool = True) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.by_file = by_file


class Clock:
    """The time that a file has as a whole, OCR apart."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether it has run out."""
        return time.monotonic() >= self.end


class Child:
    """One reading process.

    `used`: how many files it was asked to read; `member`: what inside the last one it was at.
    """

    def __init__(
        self,
        limits: Limits,
        ocr: Tesseract | None,
        process: subprocess.Popen[bytes] | ForkedProcess,
    ) -> None:
        self._limits = limits
        self._ocr = ocr
        self._clock = Clock(_START_SECONDS)
        self.used = 0
        self.member = ""
        self.process = process
        self._said = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._heard = bytearray()
        try:
            self._next(time.monotonic() + _START_SECONDS)
        except (WorkerDiedError, ValueError):
            self.end()
            raise RuntimeError(
                f"the reading process did not start: {self._said.decode('utf-8', 'replace')}"
            ) from None

    @property
    def has_ended(self) -> bool:
        """Whether it is gone: between two files that is the fault of neither."""
        return self.process.poll() is not None

    def read(
        self,
        path: Path,
        format: str,
        without: Sequence[str],
        outcome: Outcome,
        done: set[str],
        passwords: list[str],
        clock: Clock,
    ) -> None:
        """Read one file into `outcome`. Raises WorkerDiedError where the process is lost by it."""
        self.used = self.used + 1
        self.member = ""
        self._clock = clock
        self._ocr_seconds = 0.0
        self._named = 0
        asked = {"path": str(path), "format": format, "without": without, "passwords": passwords}
        self._send({**asked, "ocr": self._limits.ocr_seconds if self._ocr else None})
        try:
            while self._take(
                self._next(min(time.monotonic() + self._limits.seconds, clock.end)), outcome, done
            ):
                pass
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WorkerDiedError("damaged", "its reader answered nonsense") from None

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write((json.dumps(message) + "\n").encode())
            self.process.stdin.flush()
        except OSError:
            raise self._death() from None

    def _recognise(self, message: dict[str, Any]) -> None:
        """Have a picture read, and send the process its text."""
        picture = base64.b64decode(message["data"])
        if self._ocr is None:
            raise ValueError("OCR is off")
        if self._ocr_seconds > self._limits.ocr_seconds + self._limits.seconds:
            raise ValueError("it asks for more OCR than it may")
        started = time.monotonic()
        text, problem = self._ocr.read(picture, self._limits.memory, self._limits.seconds)
        taken = time.monotonic() - started
        self._ocr_seconds += taken
        self._clock.end += taken
        self._send({"text": text, "problem": problem})

    def _take(self, message: dict[str, Any], outcome: Outcome, done: set[str]) -> bool:
        """Note what a message says; returns whether more are to come."""
        match message.get("type"):
            case "begin":
                begun = text_of(message["member"])
                self._named += len(begun)
                if self._named > MOST_NAMES:
                    raise ValueError("more names than a file may hold")
                if self.member and not begun.startswith(f"{self.member}/"):
                    done.add(self.member)
                self.member = begun
            case "picture":
                self._recognise(message)
            case "document" | "left out":
                outcome.keep(finding(message))
            case "failed":
                if message["kind"] == "out of memory":
                    raise WorkerDiedError("out of memory", self._out_of_memory())
                outcome.give_up(known(message["kind"], Kind), text_of(message["reason"]))
                return False
            case "closed":
                outcome.reason = text_of(message["reason"]).lower()
                outcome.closed = True
                return False
            case _:
                return False
        return True

    def _next(self, deadline: float) -> dict[str, Any]:
        """The next message.

        Raises WorkerDiedError where it does not come in time, ValueError where it is none.
        """
        self._hear(HEADER.size, deadline)
        end = HEADER.size + HEADER.unpack_from(self._heard)[0]
        if end > MAX_FRAME + HEADER.size:
            raise ValueError("too long an answer")
        self._hear(end, deadline)
        message = json.loads(self._heard[HEADER.size : end].decode())
        del self._heard[:end]
        return message if isinstance(message, dict) else {}

    def _hear(self, count: int, deadline: float) -> None:
        """Listen until so many bytes are there."""
        assert self.process.stdout is not None
        while len(self._heard) < count:
            left = deadline - time.monotonic()
            try:
                pipe = self.process.stdout.fileno()
                ready = left > 0 and bool(select.select([pipe], [], [], left)[0])
                if ready:
                    piece = os.read(pipe, _PIECE)
                else:
                    piece = b""
            except (
                OSError,
                ValueError,
            ):
                # the pool was closed at this moment, and the pipe with it
                raise self._death() from None
            if not ready:
                raise WorkerDiedError(
                    "timed out", f"it was not read within {self._limits.seconds} s"
                )
            if not piece:
                raise self._death()
            self._heard += piece

    def _death(self) -> WorkerDiedError:
        """Why the process is gone."""
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        self._listener.join(1)
        said = self._said.decode("utf-8", "replace")
        if isinstance(self.process, ForkedProcess) and self.process.is_orphan:
            return WorkerDiedError(
                "crashed", "the process that its reader came from ended", by_file=False
            )
        if code == -signal.SIGXCPU:
            return WorkerDiedError(
                "timed out", f"it was not read within {self._limits.seconds} s of computing"
            )
        if "memory allocation of" in said or "MemoryError" in said:
            return WorkerDiedError("out of memory", self._out_of_memory())
        if isinstance(self.process, ForkedProcess):
            peak = self.process.peak
        else:
            peak = 0
        if peak:
            held = f"; it held {size_text(peak)} of {size_text(self._limits.memory)} at most"
        else:
            held = ""
        return WorkerDiedError(
            "crashed", f"its reader ended for an unknown reason ({describe_exit_code(code)}){held}"
        )

    def _out_of_memory(self) -> str:
        return f"reading it needs more than {size_text(self._limits.memory)} of memory"

    def _listen(self) -> None:
        assert self.process.stderr is not None
        pipe = self.process.stderr
        while piece := pipe.read1(4096):  # type: ignore[attr-defined]
            self._said = (self._said + piece)[-_STDERR_KEPT:]

    def end(self) -> None:
        """End the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        self._listener.join(1)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):  # what was still to be written has no reader any more
                    pipe.close()


def command(limits: Limits) -> list[str]:
    """What a reading process is started by."""
    # -P: without it, modules of the folder that the user stands in would come before the installed
    # ones
    return [
        sys.executable,
        "-P",
        "-m",
        "engine.corpus.sandbox.worker",
        str(limits.memory),
        str(limits.seconds),
    ]


def environment(*, compiles: bool = False) -> dict[str, str]:
    """What a reading process knows of the environment: nothing that is secret.

    `compiles`: whether it may keep compiled modules for the next one, as this process does unless
    PYTHONDONTWRITEBYTECODE is set.
    """
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    kept |= dict.fromkeys(_ONE_THREAD, "1") | {"PYTHONPATH": import_path()}
    if compiles and not sys.dont_write_bytecode:
        return kept
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"}


def started(limits: Limits) -> subprocess.Popen[bytes]:
    """A reading process that is started anew, where none can be forked."""
    return subprocess.Popen(
        command(limits),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )
