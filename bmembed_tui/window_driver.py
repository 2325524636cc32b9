"""The driver of the app inside a window: Textual's web driver, leaving when the window is gone."""

from __future__ import annotations

import base64
import binascii
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from textual import messages
from textual.app import App
from textual.drivers._input_reader import InputReader
from textual.drivers.web_driver import WebDriver

from engine.core.platforms.pipes import can_wait_for_pipes, has_lost_reader
from engine.core.platforms.stopping import take_input

_COPY = "\x1b]52;c;"  # begins the sequence OSC 52, which copies text to the clipboard
_READ_BYTES = 1024


class PipeInput(InputReader):
    """Reads what the window sends in a thread, on Windows, where nothing can wait for a pipe.

    The thread reads a descriptor of its own (`take_input`). If it read standard input, libraries
    that use standard input would wait for the thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._source = take_input(buffered=False)
        self._received = queue.SimpleQueue[bytes]()

    def __iter__(self) -> Iterator[bytes]:
        """Read until the window's end of the pipe is closed.

        While the window sends nothing, yield nothing every `timeout` seconds: Textual then takes an
        Escape that nothing has followed for a key.
        """
        threading.Thread(target=self._receive, daemon=True).start()
        while not self._exit_event.is_set():
            try:
                data = self._received.get(timeout=self.timeout)
            except queue.Empty:
                yield b""
                continue
            if not data:
                return
            yield data

    def _receive(self) -> None:
        """Queue what the window sends; empty bytes stand for the end."""
        while True:
            try:
                data = os.read(self._source.fileno(), _READ_BYTES)
            except OSError:
                data = b""
            self._received.put(data)
            if not data:
                return


class PipeDriver(WebDriver):
    """A driver that exchanges packets on standard input and output.

    Copied text is sent to the window as a message, because the clipboard is the window's.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        # WebDriver calls this with each packet.
        self._write = partial(_write_packet, self.fileno)
        if not can_wait_for_pipes():
            self._input_reader = PipeInput()
            self._key_thread.daemon = True

    def write(self, data: str) -> None:
        """Write to the window. Text to copy, an OSC 52 sequence, is sent as a message."""
        if data.startswith(_COPY) and data.endswith("\a"):
            with suppress(binascii.Error, ValueError):
                text = base64.b64decode(data[len(_COPY) : -1]).decode("utf-8", "replace")
                self.write_meta({"type": "copy", "text": text})
                return
        super().write(data)

    def run_input_thread(self) -> None:
        """Read until the window is closed or its process has ended, then leave the app."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())


def _write_packet(descriptor: int, data: bytes) -> int:
    """Write to the window; if it is gone, write nothing, since the app leaves."""
    try:
        return os.write(descriptor, data)
    except OSError as error:
        if not has_lost_reader(error):
            raise
        return 0


def send_to_window(app: App[Any], **message: object) -> None:
    """Send a message to the window that shows the app; does nothing in a terminal."""
    if isinstance(app._driver, PipeDriver):
        app._driver.write_meta(message)
