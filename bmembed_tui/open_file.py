"""Opening a file with the system's own viewer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from engine.core.platforms import SYSTEM
from engine.core.platforms.files import is_document, open_with_viewer
from engine.core.platforms.processes import own_session

PAGE_ARGUMENTS = {
    "evince": ("--page-index={page}", "{file}"),
    "papers": ("--page-index={page}", "{file}"),
    "atril": ("--page-index={page}", "{file}"),
    "xreader": ("--page-index={page}", "{file}"),
    "okular": ("--page={page}", "{file}"),
    "zathura": ("--page={page}", "{file}"),
    "qpdfview": ("{file}#{page}",),
    "firefox": ("{uri}#page={page}",),
    "chromium": ("{uri}#page={page}",),
    "google-chrome": ("{uri}#page={page}",),
}
"""Arguments of the Linux PDF viewers that can open a page, by program.

The program's name is also part of the name of its desktop entry.
"""


class OpenResult(NamedTuple):
    """The outcome of opening a file: an error message or "", and whether it opened at the page."""

    problem: str = ""
    at_page: bool = False


def open_file(path: Path, page: int | None = None) -> OpenResult:
    """Open `path` with the system's viewer, without a shell. This may take seconds.

    A PDF is opened at `page` where the user's default PDF viewer supports it. Over SSH, or without
    a display, the result's problem says so and names the path.
    """
    try:
        if not is_document(path.absolute()):
            return OpenResult(f"{path} no longer exists.")
        if SYSTEM == "windows":
            open_with_viewer(path.absolute())
            return OpenResult()
        command = _find_viewer()
        if command is None:
            return OpenResult(f"There is no display to open it on. The file is {path}")
        paged_command: list[str] = []
        if page and path.suffix.lower() == ".pdf":
            paged_command = _build_paged_command(path.absolute(), page)
        subprocess.Popen(
            paged_command or [command, str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **own_session(),
        )
    except (OSError, ValueError) as error:
        return OpenResult(f"{path} could not be opened: {error}.")
    return OpenResult(at_page=bool(paged_command))


def _find_viewer() -> str | None:
    """Return the program that opens files with their default application.

    None without a display.
    """
    if SYSTEM == "macos":
        return "open"
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open")


def _build_paged_command(file: Path, page: int) -> list[str]:
    """Return the command that opens a PDF at a page with the user's own viewer.

    Empty where that viewer cannot open a page.
    """
    if SYSTEM == "macos":
        return _build_skim_command(file, page)
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
    desktop_entry = answer.stdout.lower()  # such as org.gnome.evince.desktop
    for name, arguments in PAGE_ARGUMENTS.items():
        if name in desktop_entry:
            program = shutil.which(name)
            if program is None:
                return []
            values = {
                "page": page,
                "file": file,
                "uri": file.as_uri(),
            }
            return [program, *(argument.format_map(values) for argument in arguments)]
    return []


def _build_skim_command(file: Path, page: int) -> list[str]:
    """Return the command for Skim on macOS, since Preview cannot open a page."""
    folders = (Path("/Applications"), Path.home() / "Applications")
    if any((folder / "Skim.app").is_dir() for folder in folders):
        return ["open", f"skim://{file.as_uri().removeprefix('file://')}#page={page}"]
    return []
