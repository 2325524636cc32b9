"""The app as a child process: started, written to, read from, ended."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from bmembed_tui.window.packets import DATA, META, PacketError, Unpacker, build_packet
from engine.core.platforms.processes import python_environment, python_program
from engine.core.subprocesses import import_path

LEAVE_SECONDS = 5.0  # for the app to end, before it is ended by harder means
ERROR_TEXT_LENGTH = 4000  # characters kept of what the app prints when it fails
_READ_BYTES = 65_536

Output = Callable[[str], None]
Message = Callable[[dict[str, Any]], None]


class AppProcess:
    """A running app.

    `size`: columns and rows. `on_output` gets what a terminal would show; `on_message` gets
    requests of the app to the window. Both are called from threads of this class. The last message
    is {"type": "ended", "code": …, "text": …}: the exit code, and what the app wrote to standard
    error.
    """

    def __init__(
        self, project: str | None, size: tuple[int, int], on_output: Output, on_message: Message
    ) -> None:
        self._on_output = on_output
        self._on_message = on_message
        self._lock = threading.Lock()
        self._error_text = ""
        command = [
            *python_program(),
            "-P",
            "-m",
            "bmembed_tui.window.app_process",
        ]
        if project:
            command.append(project)
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_build_environment(size),
        )
        self._error_reader = threading.Thread(
            target=self._read_errors, daemon=True, name="window-errors"
        )
        self._error_reader.start()
        threading.Thread(target=self._read_output, daemon=True, name="window-output").start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def type(self, text: str) -> None:
        self._send(build_packet(DATA, text.encode("utf-8", "replace")))

    def send(self, **message: Any) -> None:
        """Send a message to the app's driver, such as type="resize", width=80, height=24."""
        self._send(build_packet(META, json.dumps(message).encode()))

    def close(self) -> int:
        """Ask the app to leave, end it if it does not, and return its exit code.

        A run continues.
        """
        self.send(type="quit")
        with suppress(OSError), self._lock:
            _require_pipe(self._child.stdin).close()
        for end_harder in (self._child.terminate, self._child.kill):
            try:
                return self._child.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                end_harder()
        return self._child.wait()

    def _send(self, data: bytes) -> None:
        """Write to the app; do nothing if it has ended."""
        with suppress(OSError, ValueError), self._lock:  # the app may have ended
            stdin = _require_pipe(self._child.stdin)
            stdin.write(data)
            stdin.flush()

    def _read_output(self) -> None:
        """Hand on packets until the app has ended, then send the message `ended`."""
        unpacker = Unpacker()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        stdout = _require_pipe(self._child.stdout).fileno()
        is_over = False
        while data := os.read(stdout, _READ_BYTES):
            if is_over:
                continue  # drop what the app prints after its last packet
            try:
                for kind, payload in unpacker.feed(data):
                    is_over = is_over or self._handle_packet(kind, payload, decode)
            except PacketError as error:
                is_over = True
                self._error_text += f"{error}\n"
                self._child.terminate()
        code = self._child.wait()
        self._error_reader.join(LEAVE_SECONDS)
        text = self._error_text[-ERROR_TEXT_LENGTH:].strip()
        self._on_message({"type": "ended", "code": code, "text": text})

    def _handle_packet(
        self,
        kind: str,
        payload: bytes,
        decode: Callable[[bytes], str],
    ) -> bool:
        """Pass the content of a packet on, and return whether it is the last one."""
        if kind == DATA:
            self._on_output(decode(payload))
        elif kind == META:
            message = json.loads(payload)
            if message.get("type") == "exit":
                return True
            self._on_message(message)
        return False

    def _read_errors(self) -> None:
        """Keep the last part of what the app writes to standard error."""
        for line in _require_pipe(self._child.stderr):
            text = self._error_text + line.decode("utf-8", "replace")
            # Twice the length, since blanks around the text are removed at the end.
            self._error_text = text[-2 * ERROR_TEXT_LENGTH :]


def _require_pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """Return the stream of a pipe. Raises ValueError if it is missing."""
    if stream is None:
        raise ValueError("the app has no such pipe")
    return stream


def _build_environment(size: tuple[int, int]) -> dict[str, str]:
    """Return the environment of the app's process. `size`: columns and rows."""
    return {
        **os.environ,
        **python_environment(),
        "PYTHONPATH": import_path(),
        "COLUMNS": str(size[0]),
        "ROWS": str(size[1]),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TEXTUAL_FPS": os.environ.get("TEXTUAL_FPS", "60"),
    }
