"""What the window asks of the system: its clipboard, which pages may not write to unasked, and a
notice on the screen.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

COPIERS = {"darwin": ["pbcopy"]}
_NOTIFICATION = 'on run given\ndisplay notification (item 1 of given) with title "bmembed"\nend run'
NOTIFIERS = {
    "linux": ["notify-send", "--app-name=bmembed", "--icon=bmembed", "--", "bmembed"],
    "darwin": ["osascript", "-e", _NOTIFICATION],
}
MAX_WAIT = 5.0


def copier(platform: str = sys.platform) -> Callable[[str], None]:
    """What puts a text on the clipboard, from any thread. Make it while the window is there."""
    if platform in COPIERS:
        return lambda text: _run(COPIERS[platform], text.encode("utf-8", "replace"))
    from bmembed_tui.window.qt import gui_thread

    return gui_thread().copy


def show_notice(text: str, platform: str = sys.platform) -> None:
    """Show a sentence to someone who started the window from a menu, where the system can:
    nobody reads standard error there.
    """
    if platform in NOTIFIERS:
        _run([*NOTIFIERS[platform], text])


def _run(command: list[str], data: bytes = b"") -> None:
    with suppress(OSError, subprocess.SubprocessError):  # neither is worth ending the window
        subprocess.run(command, input=data, check=False, timeout=MAX_WAIT, capture_output=True)
