"""Opens a file with the system's own viewer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PAGED = {
    **dict.fromkeys(("evince", "papers", "atril", "xreader"), ("--page-index={page}", "{file}")),
    **dict.fromkeys(("okular", "zathura"), ("--page={page}", "{file}")),
    "qpdfview": ("{file}#{page}",),
    **dict.fromkeys(("firefox", "chromium", "google-chrome"), ("{uri}#page={page}",)),
}
"""PDF viewers of Linux that can open a page, by their program, which is a word of their desktop
file's name: arguments.
"""


class Opened(NamedTuple):
    """What went wrong, or an empty text; and whether the viewer was given the page."""

    problem: str = ""
    at_page: bool = False


def open_at(path: Path, page: int | None = None) -> Opened:
    """Hand `path` to the system's viewer, without a shell. It may take seconds.

    A PDF is opened at `page` where the viewer that is the system's own for PDFs can take one. Over
    SSH, or without a display, there is none: the problem says so and names the path.
    """
    try:
        if not path.is_file():
            return Opened(f"{path} no longer exists.")
        command = _viewer()
        if command is None:
            return Opened(f"There is no display to open it on. The file is {path}")
        if page and path.suffix.lower() == ".pdf":
            paged = _paged_command(path.absolute(), page)
        else:
            paged = []
        subprocess.Popen(
            paged or [command, str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Opened(f"{path} could not be opened: {error}.")
    return Opened("", bool(paged))


def _viewer() -> str | None:
    """The program that opens files with what is theirs; None without a display."""
    if sys.platform == "darwin":
        return "open"
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open")


def _paged_command(file: Path, page: int) -> list[str]:
    """The command that opens a PDF at a page with the user's own viewer; empty where that viewer
    cannot.
    """
    # Preview, the system's own viewer, cannot; Skim can, where it is there
    if sys.platform == "darwin":
        there = any(
            (folder / "Skim.app").is_dir()
            for folder in (Path("/Applications"), Path.home() / "Applications")
        )
        if there:
            return ["open", f"skim://{file.as_uri().removeprefix('file://')}#page={page}"]
        return []
    query = shutil.which("xdg-mime")
    if query is None:
        return []
    try:
        answer = subprocess.run(
            [query, "query", "default", "application/pdf"],
            capture_output=True,
            text=True,
            timeout=3,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    name = next((name for name in PAGED if name in answer.stdout.lower()), "")
    if name:
        program = shutil.which(name)
    else:
        program = None
    if program:
        return [
            program,
            *(part.format(page=page, file=file, uri=file.as_uri()) for part in PAGED[name]),
        ]
    return []
