"""What comes with Windows itself: its programs and message boxes, and the libraries it lacks."""

from __future__ import annotations

import ntpath
import os
import sys
from typing import Any

if sys.platform == "win32":
    import ctypes
    import subprocess

_WARNING = 0x30  # MB_ICONWARNING
_FOREGROUND = 0x10000  # MB_SETFOREGROUND


def system_program(*names: str) -> str:
    """Return the path of a program of Windows, such as `clip.exe`, below its System32.

    By its name alone, a program in the working directory would be started instead.
    """
    return ntpath.join(
        os.environ.get("SYSTEMROOT", "C:\\Windows"),
        "System32",
        *names,
    )


def without_console() -> dict[str, Any]:
    """Return the options of Popen for a program of the console that shows none on Windows."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW}
    return {}


def show_message_box(title: str, text: str) -> None:
    """Show a text until the user closes it, on Windows only."""
    if sys.platform == "win32":
        ctypes.windll.user32.MessageBoxW(
            None,
            text,
            title,
            _WARNING | _FOREGROUND,
        )


def use_runtime_libraries() -> None:
    """Let libraries find Microsoft's C++ runtime, which the package msvc-runtime brings.

    That puts it at the top of a virtual environment, where Windows does not look by itself.
    """
    if sys.platform == "win32":
        os.add_dll_directory(sys.prefix)
