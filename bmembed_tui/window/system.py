"""What the window needs from the system: the clipboard, and a notice on the screen.

Pages may not write to the clipboard without a request.
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
TIMEOUT_SECONDS = 5.0


def build_copier(platform: str = sys.platform) -> Callable[[str], None]:
    """Return a function that copies a text to the clipboard, from any thread.

    Call it when there is a window.
    """
    if platform in COPIERS:
        return lambda text: _run(COPIERS[platform], text.encode("utf-8", "replace"))
    from bmembed_tui.window.qt import get_gui_thread

    return get_gui_thread().copy


def show_notice(text: str, platform: str = sys.platform) -> None:
    """Show a sentence on the screen, where the system can.

    A user who started the window from a menu does not see standard error.
    """
    if platform in NOTIFIERS:
        _run([*NOTIFIERS[platform], text])


def _run(command: list[str], data: bytes = b"") -> None:
    with suppress(OSError, subprocess.SubprocessError):  # the window must go on without it
        subprocess.run(
            command, input=data, check=False, timeout=TIMEOUT_SECONDS, capture_output=True
        )
