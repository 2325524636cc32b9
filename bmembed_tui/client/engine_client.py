"""The app's only way to the engine: requests to `engine serve`, and other commands.

Both are in one module because they start and end processes in the same way.
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
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from engine.core.errors import EngineError, StageError, reason_of
from engine.core.jsonrpc import SUPERSEDED
from engine.core.messages.wire import MessageError, Request, from_json, to_json
from engine.core.platforms.processes import own_session, python_environment
from engine.core.subprocesses import import_path, python_command, read_error

A = TypeVar("A")  # the answer to a request
T = TypeVar("T")

LINE_LIMIT = 1 << 28  # bytes of one answer: a document may be long
END_SECONDS = 2.0  # for a process to end once asked, before it is ended by harder means
EXIT_SECONDS = 1.0  # for a process to exit after it has closed its output
OUTPUT_TAIL = 1 << 14  # last bytes of standard error, which hold why a process ended


class GoneError(StageError):
    """The engine process ended before it answered."""

    code = "engine-gone"


class SupersededError(EngineError):
    """A newer search of the same series has replaced this one."""

    code = "search-superseded"


class Ask(Protocol):
    """A function that sends a request about one project and returns the answer.

    It raises EngineError.
    """

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
    return {
        **os.environ,
        **python_environment(),
        "BMEMBED_ERRORS": "json",
        "PYTHONPATH": import_path(),
        "PYTHONUTF8": "1",
    }


async def run_command(*arguments: str, good: Container[int] = (0,)) -> Any:
    """Run `engine ARGUMENTS` to its end and return its standard output.

    The output is parsed as JSON where it is JSON, else returned as text. `good`: the exit codes
    that are no error. Raises the EngineError that the command ended with. Cancelling the task ends
    the process.
    """
    async with _command_process(*arguments) as process:
        output, messages = await process.communicate()
    if process.returncode not in good:
        raise _read_command_error(
            messages,
            arguments[0],
            process.returncode,
        )
    return _parse_output(output)


async def follow_command(on_line: Callable[[Any], object], *arguments: str) -> Any:
    """Run `engine ARGUMENTS`, which writes lines of JSON; return the last of them.

    `on_line` is called with each line, parsed, when it comes. Raises what `run_command` raises.
    Cancelling the task ends the process.
    """
    last: Any = None
    async with _command_process(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        messages = asyncio.create_task(process.stderr.read())
        async for line in process.stdout:
            last = _parse_output(line)
            on_line(last)
        await process.wait()
    if process.returncode:
        raise _read_command_error(
            await messages,
            arguments[0],
            process.returncode,
        )
    return last


@asynccontextmanager
async def _command_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `engine ARGUMENTS`, and end it where the block is left by an exception."""
    process = await _spawn(
        build_engine_command(*arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
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
    result = await asyncio.to_thread(_run_to_end, build_engine_command(*arguments))
    if result.returncode:
        raise _read_command_error(
            result.stderr,
            arguments[0],
            result.returncode,
        )
    return _parse_output(result.stdout)


def _run_to_end(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a session of its own, which outlives the app. Raises EngineError."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=build_engine_environment(),
            **own_session(),
        )
    except OSError as error:
        raise _build_start_error(error) from error


async def _spawn(
    command: list[str],
    *,
    stdin: int,
    stderr: int,
) -> asyncio.subprocess.Process:
    """Start a process whose output is a pipe. `stdin`, `stderr`: a descriptor, PIPE or DEVNULL."""
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=LINE_LIMIT,
            env=build_engine_environment(),
            **own_session(),
        )
    except OSError as error:
        raise _build_start_error(error) from error


def _build_start_error(error: OSError) -> EngineError:
    """Return the error for a process that the system could not start."""
    return StageError(
        "The engine could not be started.",
        reason_of(error),
        "Free some memory or reinstall bmembed, then try again.",
        code="engine-not-started",
    )


def _parse_output(output: bytes) -> Any:
    """Return the value of JSON text, else the text itself."""
    text = output.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_command_error(
    messages: bytes,
    name: str,
    code: int | None,
) -> EngineError:
    """Return the error that the command `name` wrote to standard error as its last line of JSON.

    Where the last line is no such error, it becomes the reason of a StageError.
    """
    text = messages.decode("utf-8", "replace")
    return read_error(text) or StageError(
        f"'engine {name}' ended with exit code {code}.",
        _find_last_line(text) or "It gave no reason.",
        code="engine-command-failed",
    )


def _find_last_line(text: str) -> str:
    """Return the last line of a text, or an empty text."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


class _PendingRequest(NamedTuple):
    """A request without an answer yet, with the process that it was sent to."""

    process: asyncio.subprocess.Process
    answer: asyncio.Future[Any]


class EngineClient:
    """An `engine serve` process for one project.

    It is started at the first request, and again after it has died. Requests may run concurrently;
    each gets its own answer.
    """

    def __init__(self, project: Path) -> None:
        self.project = project
        self.process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pending: dict[int, _PendingRequest] = {}
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
        request_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_retrieve_exception)
        self._pending[request_id] = _PendingRequest(process, answer)
        request = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": method,
            "params": params,
        }
        try:
            assert process.stdin is not None
            # Where the process has ended, the task that reads its answers says why.
            with suppress(ConnectionError, OSError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
            return await answer
        finally:
            self._pending.pop(request_id, None)

    async def begin(self) -> None:
        """Start the process ahead of the first request, and have it load what the status needs."""
        process = await self._ensure_process()
        assert process.stdin is not None
        # A request without an id is a notification: it gets no answer.
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
        """Start `engine serve`, and a task that receives its answers."""
        command = build_engine_command(
            "serve",
            str(self.project),
            "--stdio",
        )
        try:
            # A file, because a pipe that nobody reads would block the process.
            messages = await asyncio.to_thread(tempfile.TemporaryFile)
            self.process = await _spawn(
                command, stdin=asyncio.subprocess.PIPE, stderr=messages.fileno()
            )
            self._reader = asyncio.create_task(self._receive_answers(self.process, messages))
        finally:
            self.starting = None

    async def _receive_answers(
        self, process: asyncio.subprocess.Process, messages: IO[bytes]
    ) -> None:
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
            for pending in self._pending.values():
                if pending.process is process and not pending.answer.done():
                    error = _build_gone_error(tail, process.returncode)
                    pending.answer.set_exception(error)
            if not self._closed:
                self.on_end()

    def receive(self, line: bytes) -> None:
        """Give an answer of the engine, one line of JSON, to the request that waits for it."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict) or message.get("id") not in self._pending:
            return
        answer = self._pending[message["id"]].answer
        if answer.done():
            return
        if "error" in message:
            answer.set_exception(_read_answer_error(message["error"]))
        else:
            answer.set_result(message.get("result"))


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Mark a future's exception as seen.

    Where the caller is gone, asyncio would print the exception across the screen.
    """
    if not future.cancelled():
        future.exception()


def _read_answer_error(data: Mapping[str, Any]) -> EngineError:
    """Return the EngineError of a JSON-RPC error object, which holds one in its `data`."""
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

    `messages`: the end of the process's standard error. `code`: its exit code; below 0 if a signal
    killed the process, which then could not write a reason.
    """
    text = ""
    if code is not None and code > 0:
        text = messages.decode("utf-8", "replace")
    return read_error(text) or GoneError(
        "The engine's search process has ended.",
        _find_last_line(text) or "It may have run out of memory.",
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
    for end_harder in (process.terminate, process.kill):
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
            return
        except TimeoutError:
            with suppress(ProcessLookupError):
                end_harder()
    await process.wait()
