"""Viewers of PDF files that can open a page: which one the user has, and the command that opens a file in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

_EVINCE = ("--page-index={page}", "{file}")
_BROWSER = ("{uri}#page={page}",)
_ADOBE = ("/A", "page={page}", "{file}")
# By a word of the viewer's desktop file's name: the program, and its arguments.
_ON_LINUX = {
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
# By the program's name: its arguments.
_ON_WINDOWS = {
    "sumatrapdf.exe": ("-page", "{page}", "{file}"),
    "acrobat.exe": _ADOBE,
    "acrord32.exe": _ADOBE,
    "foxitpdfreader.exe": _ADOBE,
    "pdfxedit.exe": _ADOBE,
    "msedge.exe": _BROWSER,
    "chrome.exe": _BROWSER,
    "firefox.exe": _BROWSER,
}
_PROGRAM = re.compile(r'\s*(?:"([^"]+\.exe)"|(.+?\.exe)(?=\s|$))', re.IGNORECASE)
_APPLICATIONS = (Path("/Applications"), Path("~/Applications"))


def paged_command(file: Path, page: int) -> list[str]:
    """The command that opens a PDF at a page with the user's own viewer; empty where that viewer cannot."""
    if sys.platform == "win32":
        return on_windows(_windows_viewer(), file, page)
    if sys.platform == "darwin":
        there = any((folder.expanduser() / "Skim.app").is_dir() for folder in _APPLICATIONS)
        return on_macos(file, page, skim=there)
    return _on_linux(file, page)


def on_macos(file: Path, page: int, *, skim: bool) -> list[str]:
    """Preview, the system's own viewer, cannot open a page; Skim can, where it is there."""
    return ["open", f"skim://{file.as_uri().removeprefix('file://')}#page={page}"] if skim else []


def on_windows(opens_with: str, file: Path, page: int) -> list[str]:
    """`opens_with`: the command that the registry names for PDF files, such as `"C:\\…\\msedge.exe" --single-argument %1`."""
    found = _PROGRAM.match(opens_with)
    program = (found[1] or found[2]) if found else ""
    arguments = _ON_WINDOWS.get(re.split(r"[\\/]", program)[-1].lower(), ())
    return [program, *_filled(arguments, file, page)] if arguments else []


def _windows_viewer() -> str:
    """What the registry says that PDF files are opened with; empty where it says nothing."""
    if sys.platform != "win32":
        return ""
    import winreg

    chosen = r"Software\Microsoft\Windows\CurrentVersion\Explorer\FileExts\.pdf\UserChoice"
    try:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, chosen) as key:
            kind = str(winreg.QueryValueEx(key, "ProgId")[0])
        return winreg.QueryValue(winreg.HKEY_CLASSES_ROOT, rf"{kind}\shell\open\command")
    except OSError:
        return ""


def _on_linux(file: Path, page: int) -> list[str]:
    query = shutil.which("xdg-mime")
    if query is None:
        return []
    try:
        answer = subprocess.run(
            [query, "query", "default", "application/pdf"], capture_output=True, text=True, timeout=3, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    known = next((known for word, known in _ON_LINUX.items() if word in answer.stdout.lower()), None)
    program = shutil.which(known[0]) if known else None
    return [program, *_filled(known[1:], file, page)] if program and known else []


def _filled(arguments: tuple[str, ...], file: Path, page: int) -> list[str]:
    return [part.format(page=page, file=file, uri=file.as_uri()) for part in arguments]
