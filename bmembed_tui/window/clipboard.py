"""The system's clipboard: pages may not write to it unasked, so that the window's own process does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

PROGRAMS = {"darwin": (["pbcopy"], "utf-8"), "win32": (["clip"], "utf-16")}
MAX_WAIT = 5.0


def copier(platform: str = sys.platform) -> Callable[[str], None]:
    """What puts a text on the clipboard, from any thread. Make it while the window is there."""
    if platform in PROGRAMS:
        command, encoding = PROGRAMS[platform]
        return lambda text: _through(command, text.encode(encoding, "replace"))
    from bmembed_tui.window.qt import gui_thread

    return gui_thread().copy


def _through(command: list[str], data: bytes) -> None:
    with suppress(OSError, subprocess.SubprocessError):  # a clipboard that cannot be had must not end the window
        subprocess.run(command, input=data, check=False, timeout=MAX_WAIT, capture_output=True)
