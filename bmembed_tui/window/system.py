"""What the window needs from the system: the clipboard, and a notice on the screen.

A page may write to the clipboard only when the user asks it to, so the system's programs do it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress

from engine.core.platforms import SYSTEM, System
from engine.core.platforms.own_parts import show_message_box, system_program, without_console

COPIERS: dict[System, list[str]] = {
    "macos": ["pbcopy"],
    "windows": [system_program("clip.exe")],
}
# In UTF-16, `clip` would copy a byte order mark as a letter.
_ENCODINGS: dict[System, str] = {"macos": "utf-8", "windows": "utf-16-le"}
_NOTIFICATION = 'on run given\ndisplay notification (item 1 of given) with title "bmembed"\nend run'
NOTIFIERS: dict[System, list[str]] = {
    "linux": ["notify-send", "--app-name=bmembed", "--icon=bmembed", "--", "bmembed"],
    "macos": ["osascript", "-e", _NOTIFICATION],
}
TIMEOUT_SECONDS = 5.0  # for a program that copies or notifies


def build_copier(system: System = SYSTEM) -> Callable[[str], None]:
    """Return a function that copies a text to the clipboard, from any thread.

    Call it when there is a window.
    """
    if system in COPIERS:
        return lambda text: _run(COPIERS[system], text.encode(_ENCODINGS[system], "replace"))
    from bmembed_tui.window.qt import get_gui_thread

    return get_gui_thread().copy


def show_notice(text: str, system: System = SYSTEM) -> None:
    """Show a sentence on the screen, where the system can.

    A user who started the window from a menu does not see standard error.
    """
    if system == "windows":
        show_message_box("bmembed", text)
    elif system in NOTIFIERS:
        _run([*NOTIFIERS[system], text])


def _run(command: list[str], data: bytes = b"") -> None:
    """Run a program with `data` as its input. If it fails, nothing happens."""
    with suppress(OSError, subprocess.SubprocessError):  # the window must go on without it
        subprocess.run(
            command,
            input=data,
            check=False,
            timeout=TIMEOUT_SECONDS,
            capture_output=True,
            **without_console(),
        )
