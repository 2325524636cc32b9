"""A sentence for someone who started the window from a menu, where nobody reads standard error."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from bmembed_tui.window.clipboard import MAX_WAIT

_NOTIFICATION = 'on run given\ndisplay notification (item 1 of given) with title "bmembed"\nend run'
PROGRAMS = {
    "linux": ["notify-send", "--app-name=bmembed", "--icon=bmembed", "--", "bmembed"],
    "darwin": ["osascript", "-e", _NOTIFICATION],
}


def show(text: str, platform: str = sys.platform) -> None:
    """Let the system show it. Where there is nothing that does, nothing happens."""
    with suppress(OSError, subprocess.SubprocessError, AttributeError):
        if platform == "win32":
            import ctypes

            ctypes.windll.user32.MessageBoxW(None, text, "bmembed", 0x10)  # type: ignore[attr-defined,unused-ignore]
        elif platform in PROGRAMS:
            subprocess.run([*PROGRAMS[platform], text], check=False, timeout=MAX_WAIT, capture_output=True)
