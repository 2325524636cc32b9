"""The system's clipboard: pages may not write to it unasked, so that the window's own process does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PROGRAMS = {"darwin": (["pbcopy"], "utf-8"), "win32": (["clip"], "utf-16")}
LONGEST_WAIT = 5.0


def copier(platform: str = sys.platform) -> Callable[[str], None]:
    """What puts a text on the clipboard, from any thread. Make it while the window is there."""
    if platform in PROGRAMS:
        command, encoding = PROGRAMS[platform]
        return lambda text: _through(command, text.encode(encoding, "replace"))
    return _with_qt()


def _through(command: list[str], data: bytes) -> None:
    with suppress(OSError, subprocess.SubprocessError):  # a clipboard that cannot be had must not end the window
        subprocess.run(command, input=data, check=False, timeout=LONGEST_WAIT, capture_output=True)


def _with_qt() -> Callable[[str], None]:
    """Qt's clipboard belongs to the thread of its windows: a queued signal takes the text there."""
    from PySide6.QtCore import QObject, Qt, Signal
    from PySide6.QtGui import QGuiApplication

    class Carrier(QObject):  # type: ignore[misc]  # the extra is not there for the type checker
        sent = Signal(str)

        def take(self, text: str) -> None:
            QGuiApplication.clipboard().setText(text)

    carrier: Any = Carrier()
    carrier.moveToThread(QGuiApplication.instance().thread())
    carrier.sent.connect(carrier.take, Qt.ConnectionType.QueuedConnection)

    def send(text: str) -> None:
        with suppress(RuntimeError):  # the window has just been closed
            carrier.sent.emit(text)  # a signal alone would not keep its object

    return send
