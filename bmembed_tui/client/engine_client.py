"""The app's only way to the engine: requests to `engine serve`, other commands.

Long, as both start and end processes alike.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Container, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from engine.core.errors import EngineError, StageError, reason_of
from engine.core.messages.wire import MessageError, Request, from_json, to_json
from engine.core.subprocesses import import_path

A = TypeVar("A")
T = TypeVar("T")

LINE_LIMIT = 1 << 28  # bytes of one answer: a document may be long
END_SECONDS = 2.0
LAST_SECONDS = 1.0  # for a process to end that has closed its output
OUTPUT_TAIL = 1 << 14  # bytes
SUPERSEDED = -32001


class GoneError(StageError):
    """The process that was to answer has ended."""

    code = "engine-gone"


class SupersededError(EngineError):
    """A newer search of the same series has taken this one's place."""

    code = "search-superseded"


class Ask(Protocol):
    """Answers requests about one project. Raises EngineError."""

    def __call__(self, request: Request[A], /) -> Coroutine[Any, Any, A]: ...


def parsed(kind: type[T], data: Any) -> T:
    """A message from JSON that the engine wrote. Raises StageError for what is none."""
    try:
        return from_json(kind, data)
    except MessageError as error:
        raise StageError(
            "The engine's answer cannot be read.",
            reason_of(error),
            "Reinstall bmembed: its parts may have different versions.",
            code="answer-invalid",
        ) from None


def engine_command(*arguments: str) -> list[str]:
    """The command line of an `engine` command, by this very Python, safe from modules of the
    current folder.
    """
    return [sys.executable, "-P", "-m", "engine", *arguments]


def engine_environment() -> dict[str, str]:
    """The environment of engine processes: errors as JSON, the same packages as this process
    has.
    """
    return dict(os.environ, BMEMBED_ERRORS="json", PYTHONPATH=import_path(), PYTHONUTF8="1")


async def command(*arguments: str, good: Container[int] = (0,)) -> Any:
    """Run `engine ARGUMENTS` to its end; returns its standard output as JSON, or as text where
    it is none.

    `good`: exit codes whose output counts. Raises the EngineError that the command ended with. A
        cancelled task ends the process.
    """
    process = await _spawn(
        engine_command(*arguments), asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    )
    try:
        output, messages = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.terminate()  # at once: an app that closes does not wait
        try:
            await _end(process)
        finally:
            _let_go(process)
        raise
    if process.returncode not in good:
        raise _failed(messages, arguments[0], process.returncode)
    return _printed(output)


async def follow(heard: Callable[[Any], object], *arguments: str) -> Any:
    """Run `engine ARGUMENTS`, which writes lines of JSON; return the last of them.

    `heard` is called with each line when it comes. Raises as `command`; a cancelled task ends the
    process.
    """
    line = engine_command(*arguments)
    process = await _spawn(line, asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    messages = asyncio.create_task(process.stderr.read())
    last: Any = None
    try:
        async for text in process.stdout:
            last = _printed(text)
            heard(last)
        await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await _end(process)
        finally:
            _let_go(process)
        raise
    if process.returncode:
        raise _failed(await messages, arguments[0], process.returncode)
    return last


async def order(*arguments: str) -> Any:
    """As `command`, for what must happen once the user wants it: to start, pause or stop a run.

    The process goes on when the task is cancelled, or the app is closed.
    """
    done = await asyncio.to_thread(_run, engine_command(*arguments))
    if done.returncode:
        raise _failed(done.stderr, arguments[0], done.returncode)
    return _printed(done.stdout)


def _run(line: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=engine_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(error) from error


async def _spawn(line: list[str], stdin: int, stderr: int) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *line,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=LINE_LIMIT,
            env=engine_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(error) from error


def _not_started(error: OSError) -> EngineError:
    return StageError(
        "The engine could not be started.",
        reason_of(error),
        "Free some memory or reinstall bmembed, then try again.",
        code="engine-not-started",
    )


def _printed(output: bytes) -> Any:
    text = output.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _failed(messages: bytes, name: str, code: int | None) -> EngineError:
    """The error on the last line that a command wrote; where it wrote none, that line."""
    error, last = _last_error(messages)
    return error or StageError(
        f"'engine {name}' ended with exit code {code}.",
        last or "It gave no reason.",
        code="engine-command-failed",
    )


def _last_error(messages: bytes) -> tuple[EngineError | None, str]:
    lines = messages.decode("utf-8", "replace").strip().splitlines()
    with suppress(ValueError, IndexError, AttributeError):
        return EngineError.from_dict(json.loads(lines[-1])), ""
    return None, lines[-1] if lines else ""


class EngineClient:
    """`engine serve` for one project: started at the first request, started again when it has died.

    Requests may be made side by side; each gets its own answer.
    """

    def __init__(self, project: Path) -> None:
        self.project = project
        self.process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, tuple[asyncio.subprocess.Process, asyncio.Future[Any]]] = {}
        self._ids = itertools.count(1)
        self.starting: asyncio.Task[None] | None = None
        self._closed = False
        self.on_end: Callable[[], object] = lambda: None
        """Called when the process has ended by itself."""

    async def ask(self, request: Request[A]) -> A:
        """The answer to one request. Raises the EngineError that it was answered with."""
        kind: type[A] = request.answer
        return parsed(kind, await self.call(request.method, **to_json(request)))

    async def call(self, method: str, **params: Any) -> Any:
        """As `ask`, in JSON."""
        process = await self._started()
        key = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        self._waiting[key] = process, future
        request = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        try:
            assert process.stdin is not None
            # it has ended: whoever reads its answers says why
            with suppress(ConnectionError, OSError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
            return await future
        finally:
            self._waiting.pop(key, None)

    async def begin(self) -> None:
        """Start the process before there is anything to ask: it loads what it takes to say how
        far the project is.
        """
        process = await self._started()
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "status"}\n')

    async def restart(self) -> None:
        await self.close()
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        if self.starting is not None:  # one that is being started is ended, too
            await asyncio.wait([self.starting])
        process = self.process
        self.process = None
        if process is not None:
            try:
                await _end(process)
            finally:
                _let_go(process)
        if self._reader is not None:
            self._reader.cancel()

    async def _started(self) -> asyncio.subprocess.Process:
        while not self._closed:
            if self.process is not None and self.process.returncode is None:
                return self.process
            if self.starting is None:
                self.starting = asyncio.create_task(self._start())
                self.starting.add_done_callback(_retrieve)
            await asyncio.shield(
                self.starting
            )  # a question given up would leave a process that nobody can end
        raise _gone()

    async def _start(self) -> None:
        line = engine_command("serve", str(self.project), "--stdio")
        try:
            said = await asyncio.to_thread(
                tempfile.TemporaryFile
            )  # a pipe that nobody reads would hold it up
            self.process = await _spawn(line, asyncio.subprocess.PIPE, said.fileno())
            self._reader = asyncio.create_task(self._read(self.process, said))
        finally:
            self.starting = None

    async def _read(self, process: asyncio.subprocess.Process, said: IO[bytes]) -> None:
        assert process.stdout is not None
        try:
            with suppress(ValueError):  # a line over the limit: what follows it cannot be read
                while line := await process.stdout.readline():
                    self.receive(line)
            await _ended(process)
        finally:
            with said:
                words = _output_tail(said)
            for owner, future in self._waiting.values():
                if owner is process and not future.done():
                    future.set_exception(_gone(words, process.returncode))
            if not self._closed:
                self.on_end()

    def receive(self, line: bytes) -> None:
        try:
            answer = json.loads(line)
        except ValueError:
            return
        if not isinstance(answer, dict) or answer.get("id") not in self._waiting:
            return
        _, future = self._waiting[answer["id"]]
        if future.done():
            return
        if "error" in answer:
            future.set_exception(_error(answer["error"]))
        else:
            future.set_result(answer.get("result"))


def _retrieve(future: asyncio.Future[Any]) -> None:
    """The caller may be gone: asyncio would print an error that nobody took, across the screen."""
    if not future.cancelled():
        future.exception()


def _error(data: Mapping[str, Any]) -> EngineError:
    if data.get("code") == SUPERSEDED:
        return SupersededError("A newer search took this one's place.")
    if isinstance(data.get("data"), Mapping):
        return EngineError.from_dict(data["data"])
    return StageError(
        "The engine could not answer.",
        str(data.get("message", "")),
        "Try again.",
        code="engine-no-answer",
    )


def _output_tail(said: IO[bytes]) -> bytes:
    said.seek(max(0, said.seek(0, os.SEEK_END) - OUTPUT_TAIL))
    return said.read()


def _gone(words: bytes = b"", code: int | None = None) -> EngineError:
    """Why the process has ended, from what it wrote last; one that was killed could not write
    why.
    """
    error, last = _last_error(words if code and code > 0 else b"")
    why = last or "It may have run out of memory."
    return error or GoneError(
        "The engine's search process has ended.", why, "Try again: the app restarts it."
    )


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that says no more; it is killed where it does not end by
    itself.

    Not at once: killing looks whether it has ended, which hides its exit code from asyncio.
    """
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), LAST_SECONDS)
        return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _let_go(process: asyncio.subprocess.Process) -> None:
    """Close its pipes now: asyncio would do it when the loop is closed, and print a traceback.

    What still runs is killed.
    """
    process._transport.close()  # type: ignore[attr-defined]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, which ends a server; else ask, then force it to end."""
    if process.stdin is not None:
        process.stdin.close()
    for stop in (process.terminate, process.kill):
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
            return
        except TimeoutError:
            with suppress(ProcessLookupError):
                stop()
    await process.wait()
