"""Opens a file with the system's own viewer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_EVINCE = ("--page-index={page}", "{file}")
_BROWSER = ("{uri}#page={page}",)
# Viewers of PDF files that can be told a page, by a word of their desktop file's name: the program, and its arguments.
_PAGED = {
    "evince": ("evince", *_EVINCE),
    "papers": ("papers", *_EVINCE),
    "atril": ("atril", *_EVINCE),
    "xreader": ("xreader", *_EVINCE),
    "okular": ("okular", "--page={page}", "{file}"),
    "zathura": ("zathura", "--page={page}", "{file}"),
    "qpdfview": ("qpdfview", "{file}#{page}"),
    "firefox": ("firefox", *_BROWSER),
    "chromium": ("chromium", *_BROWSER),
    "google-chrome": ("google-chrome", *_BROWSER),
}


def open_file(path: Path, page: int | None = None) -> str:
    """Hand `path` to the system's viewer, without a shell; returns what went wrong, or an empty text. It may take seconds.

    A PDF is opened at `page` where the viewer that is the system's own for PDFs can be told one. Over SSH, or without a
    display, there is none: the answer says so and names the path.
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
        is_pdf = path.suffix.lower() == ".pdf" and command.endswith("xdg-open")
        paged = _paged_viewer(path.absolute(), page) if page and is_pdf else []
        subprocess.Popen(
            paged or [command, str(path.absolute())], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
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


def _paged_viewer(file: Path, page: int) -> list[str]:
    """The command that opens a PDF at a page with the user's own viewer; empty where that viewer cannot."""
    query = shutil.which("xdg-mime")
    if query is None:
        return []
    try:
        asked = subprocess.run(
            [query, "query", "default", "application/pdf"], capture_output=True, text=True, timeout=3, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    known = next((known for word, known in _PAGED.items() if word in asked.stdout.lower()), None)
    program = shutil.which(known[0]) if known else None
    if program is None or known is None:
        return []
    return [program, *(part.format(page=page, file=file, uri=file.as_uri()) for part in known[1:])]
