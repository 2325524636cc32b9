"""The driver of the app inside a window: Textual's web driver, leaving when the window is gone."""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import Any

from textual import messages
from textual.app import App
from textual.drivers.web_driver import WebDriver

_COPY = "\x1b]52;c;"


class PipeDriver(WebDriver):
    """A driver that exchanges packets on standard input and output.

    Copied text is sent to the window as a message, because the clipboard is the window's.
    """

    def write(self, data: str) -> None:
        if data.startswith(_COPY) and data.endswith("\a"):
            with suppress(binascii.Error, ValueError):
                text = base64.b64decode(data[len(_COPY) : -1]).decode("utf-8", "replace")
                self.write_meta({"type": "copy", "text": text})
                return
        with suppress(BrokenPipeError):  # the window is gone, and the app leaves
            super().write(data)

    def write_meta(self, data: dict[str, object]) -> None:
        with suppress(BrokenPipeError):
            super().write_meta(data)

    def run_input_thread(self) -> None:
        """Read until the window is closed or its process has ended, then leave the app."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())


def send_to_window(app: App[Any], **message: object) -> None:
    """Send a message to the window that shows the app; does nothing in a terminal."""
    if isinstance(app._driver, PipeDriver):
        app._driver.write_meta(message)
