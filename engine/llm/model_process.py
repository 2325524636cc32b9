"""A GGUF file, served by a process of its own that may crash and can be ended at any time.

llama.cpp crashes on some files, its loading cannot be stopped, and a file's chat template can hang
it. The server is that of llama-cpp-python, which only this process can reach.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from engine.core.errors import EngineError, StageError
from engine.core.extras import check_llm
from engine.core.platforms.files import try_remove_tree
from engine.core.platforms.pipes import PipeReader
from engine.core.platforms.processes import describe_exit_code
from engine.core.platforms.sockets import has_unix_sockets
from engine.core.subprocesses import GRACE_SECONDS, spawn
from engine.endpoint.address import Address
from engine.endpoint.client import POLL_SECONDS, Client

MODULE = "engine.llm.serving"
MAX_SOCKET_PATH = 100
"""Bytes of a unix socket's path that every system accepts."""


class ServedFile(BaseModel):
    """What a process is to serve, and how."""

    path: str
    context: int
    """Number of tokens of a prompt and its answer, or of a text to embed."""
    pooling: str = ""
    """Pooling of an embedding model as in the settings; empty for a language model."""
    on_gpu: bool = True
    """Whether a GPU may be used."""
    socket_path: str = ""
    """Path of the unix socket to listen at; empty for a loopback port."""
    token: str = ""
    """The key that every request must have."""


class Choice(BaseModel):
    """An automatic choice and its reason."""

    setting: str
    value: str | int
    reason: str


class Served(BaseModel):
    """The only line that a process prints: what it serves, or the error that prevents it."""

    port: int = 0
    context: int = 0
    """Number of tokens of a prompt and its answer."""
    width: int = 0
    """Width of an embedding model's vectors."""
    choices: list[Choice] = []
    warnings: list[str] = []
    error: dict[str, str] | None = None
    """The error as `EngineError.from_dict` takes it."""


class ModelProcess:
    """A process that serves a file, until it is closed or nobody refers to this object.

    `client` reaches the server; `served` is what the process said about the model.
    """

    def __init__(self, file: ServedFile, check: Callable[[], object]) -> None:
        """Load the model; `check` is called many times a second and may raise to stop that.

        Raises ModelError if the file cannot be used, UsageError if llama.cpp is not installed,
        StageError if the process crashed.
        """
        check_llm()
        folder = tempfile.mkdtemp(prefix="bmembed-")
        socket_path = f"{folder}/model.sock"
        if not has_unix_sockets() or len(os.fsencode(socket_path)) > MAX_SOCKET_PATH:
            socket_path = ""
        self._name = Path(file.path).name
        file = file.model_copy(
            update={
                "path": _readable_path(file.path, folder),
                "socket_path": socket_path,
                "token": secrets.token_urlsafe(32),
            }
        )
        # The token is not among the arguments, which other users can see.
        self._process = spawn(
            MODULE,
            [],
            os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        output = PipeReader(self._process.stdout)
        self.close = weakref.finalize(
            self,
            _end,
            self._process,
            output,
            folder,
        )
        try:
            self.served = self._read_ready(file, output, check)
        except BaseException:
            self.close()
            raise
        address = Address(
            "http",
            "127.0.0.1",
            self.served.port,
            "/v1",
            socket_path=socket_path,
        )
        self.client = Client(address, file.token)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def crash_error(self) -> StageError:
        """Return the error of a process that ended by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        self._process.kill()
        code = describe_exit_code(self._process.wait())
        return StageError(
            f"The process of the model {self._name} crashed ({code}).",
            "Native code of a model library crashed.",
            "Try again; if it happens again, use another model.",
            code="model-crashed",
            command="run",
        )

    def _read_ready(
        self, file: ServedFile, output: PipeReader, check: Callable[[], object]
    ) -> Served:
        """Tell the process what to serve, and return its answer. Raises what `__init__` raises."""
        assert self._process.stdin is not None
        line = b""
        try:
            self._process.stdin.write(f"{file.model_dump_json()}\n".encode())
            self._process.stdin.flush()
            while not line.endswith(b"\n"):
                part = output.read(POLL_SECONDS)
                if part == b"":
                    raise self.crash_error()
                line += part or b""
                check()
        except OSError:
            # It has died; its exit code says why.
            raise self.crash_error() from None
        served = Served.model_validate_json(line)
        if served.error is not None:
            raise EngineError.from_dict(served.error)
        return served


def _readable_path(path: str, folder: str) -> str:
    """Return a path to the file that is valid UTF-8, as llama-cpp-python needs it.

    If the file's own path is not, it is that of a new link in `folder`.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        link = Path(folder) / "model.gguf"
        link.symlink_to(path)
        return str(link)
    return path


def _end(
    process: subprocess.Popen[bytes],
    output: PipeReader,
    folder: str,
) -> None:
    """Kill the process, and remove the folder of its socket."""
    process.kill()
    process.wait()
    assert process.stdin is not None
    # A line that a dead process did not take cannot be flushed.
    with suppress(OSError):
        process.stdin.close()
    output.close()
    try_remove_tree(Path(folder))
