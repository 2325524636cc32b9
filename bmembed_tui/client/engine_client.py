"""The app's only way to the engine: requests to `engine serve`, and other commands.

It is long because both start and end processes in the same way.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from engine.core.errors import EngineError, StageError, reason_of
from engine.core.jsonrpc import SUPERSEDED
from engine.core.messages.wire import MessageError, Request, from_json, to_json
from engine.core.platforms.processes import own_session, python_environment
from engine.core.subprocesses import import_path, python_command, read_error

A = TypeVar("A")
T = TypeVar("T")

LINE_LIMIT = 1 << 28  # bytes of one answer: a document may be long
END_SECONDS = 2.0
EXIT_SECONDS = 1.0  # for a process to exit after it has closed its output
OUTPUT_TAIL = 1 << 14  # bytes


class GoneError(StageError):
    """The engine process ended before it answered."""

    code = "engine-gone"


class SupersededError(EngineError):
    """A newer search of the same series has replaced this one."""

    code = "search-superseded"


class Ask(Protocol):
    """Answers a request about one project; raises EngineError."""

    def __call__(self, request: Request[A], /) -> Coroutine[Any, Any, A]: ...


def parse_answer(kind: type[T], data: Any) -> T:
    """Return a message from JSON that the engine wrote.

    Raises StageError where the JSON does not fit the type.
    """
    try:
        return from_json(kind, data)
    except MessageError as error:
        raise StageError(
            "The engine's answer cannot be read.",
            reason_of(error),
            "Reinstall bmembed: its parts may have different versions.",
            code="answer-invalid",
        ) from None


def build_engine_command(*arguments: str) -> list[str]:
    """Return the command line of an `engine` command.

    It runs in this Python, and ignores modules of the current folder.
    """
    return python_command("engine", *arguments)


def build_engine_environment() -> dict[str, str]:
    """Return the environment of engine processes: errors as JSON, and this process's packages."""
    own = {"BMEMBED_ERRORS": "json", "PYTHONPATH": import_path(), "PYTHONUTF8": "1"}
    return {**os.environ, **python_environment(), **own}


async def run_command(*arguments: str, good: Container[int] = (0,)) -> Any:
    """Run `engine ARGUMENTS` to its end and return its standard output.

    The output is parsed as JSON where it is JSON, else returned as text. `good`: exit codes whose
    output counts. Raises the EngineError that the command ended with. Cancelling the task ends the
    process.
    """
    async with _command_process(*arguments) as process:
        output, messages = await process.communicate()
    if process.returncode not in good:
        raise _read_command_error(messages, arguments[0], process.returncode)
    return _parse_output(output)


async def follow(heard: Callable[[Any], object], *arguments: str) -> Any:
    """Run `engine ARGUMENTS`, which writes lines of JSON; return the last of them.

    `heard` is called with each line when it comes. Raises what `run_command` raises. Cancelling the
    task ends the process.
    """
    last: Any = None
    async with _command_process(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        messages = asyncio.create_task(process.stderr.read())
        async for text in process.stdout:
            last = _parse_output(text)
            heard(last)
        await process.wait()
    if process.returncode:
        raise _read_command_error(await messages, arguments[0], process.returncode)
    return last


@asynccontextmanager
async def _command_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `engine ARGUMENTS`, and end it where the block is left by an exception."""
    line = build_engine_command(*arguments)
    process = await _spawn(line, asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE)
    try:
        yield process
    except BaseException:
        with suppress(ProcessLookupError):
            process.terminate()  # at once, because an app that closes does not wait
        try:
            await _end_process(process)
        finally:
            _close_pipes(process)
        raise


async def run_detached_command(*arguments: str) -> Any:
    """Run `engine ARGUMENTS` to its end, even if the task is cancelled or the app is closed.

    For what must happen once the user wants it: starting, pausing or stopping a run. Returns and
    raises as `run_command`.
    """
    result = await asyncio.to_thread(_run, build_engine_command(*arguments))
    if result.returncode:
        raise _read_command_error(result.stderr, arguments[0], result.returncode)
    return _parse_output(result.stdout)


def _run(line: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=build_engine_environment(),
            **own_session(),
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
            env=build_engine_environment(),
            **own_session(),
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


def _parse_output(output: bytes) -> Any:
    text = output.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_command_error(messages: bytes, name: str, code: int | None) -> EngineError:
    """Return the error on the last line that a command wrote.

    Where that line is not an error in JSON, it becomes the reason of a StageError.
    """
    error, last_line = _read_last_error(messages)
    return error or StageError(
        f"'engine {name}' ended with exit code {code}.",
        last_line or "It gave no reason.",
        code="engine-command-failed",
    )


def _read_last_error(messages: bytes) -> tuple[EngineError | None, str]:
    """Return the error on the last line, if it is one, and the line itself."""
    text = messages.decode("utf-8", "replace").strip()
    lines = text.splitlines()
    return read_error(text), lines[-1] if lines else ""


class EngineClient:
    """An `engine serve` process for one project.

    It is started at the first request, and again after it has died. Requests may run concurrently;
    each gets its own answer.
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
        """Callback for a process that has ended by itself."""

    async def ask(self, request: Request[A]) -> A:
        """Send a request and return its answer.

        Raises the EngineError that the engine answered with.
        """
        kind: type[A] = request.answer
        return parse_answer(kind, await self.call(request.method, **to_json(request)))

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request in JSON and return the answer in JSON. Raises what `ask` raises."""
        process = await self._ensure_process()
        key = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve_exception)
        self._waiting[key] = process, future
        request = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        try:
            assert process.stdin is not None
            # Where the process has ended, the task that reads its answers says why.
            with suppress(ConnectionError, OSError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
            return await future
        finally:
            self._waiting.pop(key, None)

    async def begin(self) -> None:
        """Start the process ahead of the first request, and have it load what the status needs."""
        process = await self._ensure_process()
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "status"}\n')

    async def restart(self) -> None:
        """End the process; the next request starts another."""
        await self.close()
        self._closed = False

    async def close(self) -> None:
        """End the process; requests that wait or come later fail."""
        self._closed = True
        if self.starting is not None:  # a process that is being started must be ended, too
            await asyncio.wait([self.starting])
        process = self.process
        self.process = None
        if process is not None:
            try:
                await _end_process(process)
            finally:
                _close_pipes(process)
        if self._reader is not None:
            self._reader.cancel()

    async def _ensure_process(self) -> asyncio.subprocess.Process:
        """Return the running process; start it if there is none."""
        while not self._closed:
            if self.process is not None and self.process.returncode is None:
                return self.process
            if self.starting is None:
                self.starting = asyncio.create_task(self._start())
                self.starting.add_done_callback(_retrieve_exception)
            # Shielded: a cancelled request would leave a process that nobody can end.
            await asyncio.shield(self.starting)
        raise _build_gone_error()

    async def _start(self) -> None:
        command = build_engine_command("serve", str(self.project), "--stdio")
        try:
            # A file, because a pipe that nobody reads would block the process.
            messages = await asyncio.to_thread(tempfile.TemporaryFile)
            self.process = await _spawn(command, asyncio.subprocess.PIPE, messages.fileno())
            self._reader = asyncio.create_task(self._read(self.process, messages))
        finally:
            self.starting = None

    async def _read(self, process: asyncio.subprocess.Process, messages: IO[bytes]) -> None:
        """Receive answers until the process ends, then fail the requests that still wait.

        `messages`: the process's standard error.
        """
        assert process.stdout is not None
        try:
            # ValueError: a line over the limit, after which the stream cannot be read on.
            with suppress(ValueError):
                while line := await process.stdout.readline():
                    self.receive(line)
            await _wait_for_exit(process)
        finally:
            with messages:
                tail = _read_tail(messages)
            for owner, future in self._waiting.values():
                if owner is process and not future.done():
                    future.set_exception(_build_gone_error(tail, process.returncode))
            if not self._closed:
                self.on_end()

    def receive(self, line: bytes) -> None:
        """Give an answer of the engine, one line of JSON, to the request that waits for it."""
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
            future.set_exception(_read_answer_error(answer["error"]))
        else:
            future.set_result(answer.get("result"))


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Mark a future's exception as seen.

    Where the caller is gone, asyncio would print the exception across the screen.
    """
    if not future.cancelled():
        future.exception()


def _read_answer_error(data: Mapping[str, Any]) -> EngineError:
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


def _read_tail(file: IO[bytes]) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - OUTPUT_TAIL))
    return file.read()


def _build_gone_error(messages: bytes = b"", code: int | None = None) -> EngineError:
    """Return why the process has ended, from the last line that it wrote.

    A process that was killed (`code` below 0) could not write a reason.
    """
    exited_by_itself = code is not None and code > 0
    error, last_line = _read_last_error(messages if exited_by_itself else b"")
    return error or GoneError(
        "The engine's search process has ended.",
        last_line or "It may have run out of memory.",
        "Try again: the app restarts it.",
    )


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Wait for a process that has closed its output to exit; kill it if it does not.

    It is not killed at once: killing polls the process, which hides its exit code from asyncio.
    """
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), EXIT_SECONDS)
        return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close the pipes of a process now, and kill it if it still runs.

    asyncio would close them together with the loop, and print a traceback.
    """
    process._transport.close()  # type: ignore[attr-defined]


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """End a process: close its input, which ends a server, then terminate it, then kill it."""
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
