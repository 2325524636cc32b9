"""Names and paths: what each system allows, and how a file of any name is opened."""

from __future__ import annotations

import ntpath
import os
import re
import sys
from pathlib import Path, PureWindowsPath
from urllib.parse import quote

MAX_PATH = 248
"""Of Windows, for folders; 260 for files."""
_EXTENDED = "\\\\?\\"
# A name that Windows takes for a device, whatever its ending: `con`, `nul.txt`, `com1 .tar.gz`.
_DEVICE = r"(?:con|prn|aux|nul|conin\$|conout\$|com[1-9¹²³]|lpt[1-9¹²³]) *(?:\.[^\\/]*)?"
_RESERVED = re.compile(_DEVICE, re.IGNORECASE)
# Such a name, or a space or dot at the end of a name, anywhere in a path.
_CHANGED_BY_WINDOWS = re.compile(rf"[\\/]{_DEVICE}(?:[\\/]|$)|[ .](?:[\\/]|$)", re.IGNORECASE)


def list_system_roots() -> list[Path]:
    """Return where all paths begin: / or, on Windows, the drives, also those of a network."""
    if sys.platform == "win32":
        import psutil

        return [Path(drive.mountpoint) for drive in psutil.disk_partitions(all=True)]
    return [Path("/")]


def reachable_path(path: str) -> str:
    """Return an absolute path by which a file can be opened, however long or whatever its name.

    Programs of Windows reach 260 characters, unless an administrator has set LongPathsEnabled. They
    open a device for a reserved name and ignore spaces and dots at the end of a name, which other
    systems write. Windows takes a path literally only in its long form (`extend_path`).
    """
    if sys.platform != "win32" or path.startswith(_EXTENDED):
        return path
    if len(path) < MAX_PATH and not _CHANGED_BY_WINDOWS.search(path):
        return path
    return extend_path(path)


def extend_path(path: str) -> str:
    """Return the long form of an absolute path of Windows, which has no `/`, `.` or `..`."""
    normal = ntpath.normpath(path)
    if normal.startswith("\\\\"):
        return f"{_EXTENDED}UNC{normal[1:]}"
    return f"{_EXTENDED}{normal}"


def are_names_bytes() -> bool:
    """Return whether names of files are bytes, which need not be UTF-8; on Windows they are not."""
    return sys.platform != "win32"


def file_url(folder: str, path: str) -> str:
    """Return the URL of a file in an absolute folder, also of one whose name is not UTF-8."""
    if sys.platform == "win32":
        # Letters of drives, backslashes and shares are written in ways of their own.
        return PureWindowsPath(folder, path).as_uri()
    return "file://" + quote(os.fsencode(f"{folder}/{path}"))


def is_reserved(name: str) -> bool:
    """Return whether Windows takes a file name, such as `con.txt`, for a device, or changes it."""
    return name.endswith((" ", ".")) or _RESERVED.fullmatch(name) is not None


def is_reserved_here(name: str) -> bool:
    """Return whether this system cannot have a file of that name; see `is_reserved`."""
    return sys.platform == "win32" and is_reserved(name)
