"""The app as a child process: started, written to, read from, ended."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from bmembed_tui.window.packets import DATA, META, PacketError, Unpacker, packet
from engine.core.subprocesses import import_path

LEAVE_SECONDS = 5.0
TEXT_KEPT = 4000  # characters of what the app says when it fails
_READ = 65_536

Output = Callable[[str], None]
Message = Callable[[dict[str, Any]], None]


class AppProcess:
    """A running app.

    `on_output` gets what a terminal would show, `on_message` what the app wants of the window.

    Both are called from threads of this class; the last message is {"type": "ended", "code",
    "text"}.
    """

    def __init__(
        self, project: str | None, size: tuple[int, int], on_output: Output, on_message: Message
    ) -> None:
        self._on_output = on_output
        self._on_message = on_message
        self._lock = threading.Lock()
        self._said = ""
        command = [
            sys.executable,
            "-P",
            "-m",
            "bmembed_tui.window.app_process",
            *([project] if project else []),
        ]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(size),
        )
        self._threads = [
            threading.Thread(target=self._listen, daemon=True, name="window-output"),
            threading.Thread(target=self._overhear, daemon=True, name="window-errors"),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def type(self, text: str) -> None:
        self._send(packet(DATA, text.encode("utf-8", "replace")))

    def send(self, **message: Any) -> None:
        """A message to the app's driver, such as type="resize", width=80, height=24."""
        self._send(packet(META, json.dumps(message).encode()))

    def close(self) -> int:
        """Let the app leave, and end it where it does not; a run goes on. Returns its exit code."""
        self.send(type="quit")
        with suppress(OSError), self._lock:
            _pipe(self._child.stdin).close()
        for end in (self._child.terminate, self._child.kill):
            try:
                return self._child.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                end()
        return self._child.wait()

    def _send(self, data: bytes) -> None:
        with suppress(OSError, ValueError), self._lock:  # an app that has ended takes nothing more
            stdin = _pipe(self._child.stdin)
            stdin.write(data)
            stdin.flush()

    def _listen(self) -> None:
        unpacker = Unpacker()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        stdout = _pipe(self._child.stdout).fileno()
        over = False
        while data := os.read(stdout, _READ):
            if over:
                continue  # what the app prints after its last packet
            try:
                for kind, payload in unpacker.feed(data):
                    over = over or self._take(kind, payload, decode)
            except PacketError as error:
                over = True
                self._said += f"{error}\n"
                self._child.terminate()
        code = self._child.wait()
        self._threads[1].join(LEAVE_SECONDS)
        self._on_message({"type": "ended", "code": code, "text": self._said[-TEXT_KEPT:].strip()})

    def _take(self, kind: str, payload: bytes, decode: Callable[[bytes], str]) -> bool:
        """Hand a packet on; whether it is the last one."""
        if kind == DATA:
            self._on_output(decode(payload))
        elif kind == META:
            message = json.loads(payload)
            if message.get("type") == "exit":
                return True
            self._on_message(message)
        return False

    def _overhear(self) -> None:
        for line in _pipe(self._child.stderr):
            self._said = (self._said + line.decode("utf-8", "replace"))[-2 * TEXT_KEPT :]


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the app has no such pipe")
    return stream


def _environment(size: tuple[int, int]) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": import_path(),
        "COLUMNS": str(size[0]),
        "ROWS": str(size[1]),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TEXTUAL_FPS": os.environ.get("TEXTUAL_FPS", "60"),
    }
