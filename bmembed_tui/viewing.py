"""Opens a file with the system's own viewer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def open_file(path: Path) -> str:
    """Hand `path` to the system's viewer, without a shell; returns what went wrong, or an empty text.

    Over SSH, or without a display, there is none: the answer says so and names the path.
    """
    try:
        if not path.is_file():
            return f"{path} is not there any more."
        if sys.platform == "win32":
            os.startfile(path)
            return ""
        command = _viewer()
        if command is None:
            return f"There is no display here to open it on. It lies at {path}"
        subprocess.Popen(
            [command, str(path.absolute())], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"{path} could not be opened: {error}."
    return ""


def _viewer() -> str | None:
    if sys.platform == "darwin":
        return "open"
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open")
