"""Files: syncing, modes, and replacing or removing what another program has open.

Windows neither replaces nor removes a file that is open or mapped. There, such calls are repeated
for a moment; a folder that is still in use stays whole until the next attempt.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from engine.core.platforms.names import reachable_path

RETRY_SECONDS = 2.0
PAUSE_SECONDS = 0.05
_MOUNT_POINT = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT, of junctions
_RECALL_ON_DATA_ACCESS = 0x400000  # FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS
_DATALESS = 0x40000000  # SF_DATALESS, of files in clouds on macOS
_ASIDE = ".bmembed-old-"
PROBE = ".bmembed-try-"
"""Prefix of files that are made only to see whether that is possible."""
_LEFTOVER = re.compile(rf"{re.escape(_ASIDE)}[0-9a-f]{{8}}")
_Result = TypeVar("_Result")
_Problem = tuple[type[BaseException], BaseException, TracebackType]


def open_private(path: Path, flags: int) -> int:
    """Return a descriptor of a file, opened without translation of line ends.

    A new file is private. Raises OSError.
    """
    return os.open(
        path,
        flags | getattr(os, "O_BINARY", 0),
        0o600,
    )


def sync(path: Path) -> None:
    """Sync a file, or a folder's list of names, to disk.

    Windows syncs files that are open for writing, and no folders.
    """
    if sys.platform == "win32":
        if path.is_dir():
            return
        flags = os.O_RDWR
    else:
        flags = os.O_RDONLY
    descriptor = open_private(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the mode of an open file; on Windows the profile's access list decides."""
    if sys.platform != "win32":
        os.fchmod(descriptor, mode)


def set_group(path: Path, group: int) -> None:
    """Give a file or folder to a group; on Windows nothing happens."""
    if sys.platform != "win32":
        os.chown(
            path,
            -1,
            group,
        )


def replace(source: Path, target: Path) -> None:
    """Rename a file to `target`, which it replaces.

    Raises OSError.
    """
    _repeat(lambda: source.replace(target))


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder to `target`, where nothing is.

    On Windows a virus scanner may hold a new file for a moment. Raises OSError.
    """
    _repeat(lambda: source.rename(target))


def read_bytes(path: Path) -> bytes:
    """Return the contents of a small file that another program may be replacing.

    On Windows it cannot be opened at that moment. Raises OSError.
    """
    return _repeat(path.read_bytes)


def try_remove_file(path: Path) -> bool:
    """Remove a file, if it exists; return whether it is gone.

    On Windows a file in use stays, for the caller's next attempt.
    """
    with suppress(OSError):
        delete_file(path)
    return not os.path.lexists(path)


def delete_file(path: Path) -> None:
    """Remove a file, if it exists.

    Raises OSError, on Windows also while another program uses it.
    """
    _repeat(lambda: path.unlink(missing_ok=True))


def try_remove_tree(folder: Path) -> bool:
    """Remove a folder, if it exists; return whether it is gone.

    On Windows a folder with a file in use stays whole, for the caller's next attempt.
    """
    if sys.platform == "win32":
        with suppress(OSError):
            delete_tree(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return not os.path.lexists(folder)


def delete_tree(folder: Path) -> None:
    """Remove a folder; on Windows it stays whole while a file in it is in use.

    Files that another process removes meanwhile are no error. On Windows the folder is renamed
    first, so that nobody sees half of it; what cannot be removed then, because a file was opened
    meanwhile, is removed by the next call in the same parent folder. Raises OSError.
    """
    if sys.platform != "win32":
        shutil.rmtree(folder, onerror=_raise_unless_gone)
        return
    for leftover in find_leftovers(folder.parent):
        with suppress(OSError):
            shutil.rmtree(leftover, onerror=_remove_read_only)
    aside = folder.with_name(f"{_ASIDE}{secrets.token_hex(4)}")
    try:
        rename(folder, aside)
    except FileNotFoundError:
        # Windows raises this also if the new path is too long.
        if os.path.lexists(folder):
            raise
        return
    _repeat(lambda: shutil.rmtree(aside, onerror=_remove_read_only))


def find_leftovers(parent: Path) -> list[Path]:
    """Return the folders that `delete_tree` has renamed and not removed entirely."""
    return [path for path in parent.glob(f"{_ASIDE}*") if _LEFTOVER.fullmatch(path.name)]


def _raise_unless_gone(
    _remove: object,
    _path: str,
    problem: _Problem,
) -> None:
    """Raise what stopped a removal, unless the file is already gone."""
    if not isinstance(problem[1], FileNotFoundError):
        raise problem[1]


def _remove_read_only(
    remove: Callable[[str], object],
    path: str,
    problem: _Problem,
) -> None:
    """Remove a file that is marked read-only, which Windows refuses at first."""
    if isinstance(problem[1], FileNotFoundError):
        return
    with suppress(FileNotFoundError):
        Path(path).chmod(stat.S_IWRITE)
        remove(path)


def _repeat(call: Callable[[], _Result]) -> _Result:
    """Return what a call returns; on Windows repeat it while another program has the file open.

    A folder is "not empty" there until the last handle of a removed file is closed.
    """
    if sys.platform == "win32":
        end = time.monotonic() + RETRY_SECONDS
        while time.monotonic() < end:
            try:
                return call()
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOTEMPTY):
                    raise
            time.sleep(PAUSE_SECONDS)
    return call()


def is_writable(folder: Path) -> bool:
    """Return whether files can be made in a folder; on Windows only an attempt tells."""
    if sys.platform != "win32":
        return os.access(folder, os.W_OK)
    try:
        _try_to_create(folder / f"{PROBE}{secrets.token_hex(8)}")
    except OSError:
        return False
    return True


def release_pages(memory: mmap.mmap) -> None:
    """Let the system take back the pages of a mapped file that were read."""
    if sys.platform != "win32":
        memory.madvise(mmap.MADV_DONTNEED)


def open_with_viewer(path: Path) -> None:
    """Open a file with its default program, on Windows only.

    Raises OSError.
    """
    if sys.platform == "win32":
        os.startfile(reachable_path(str(path)))


def has_room_for_names(folder: Path, length: int) -> bool:
    """Return whether a folder can have files whose paths within it have `length` characters.

    Windows may limit whole paths to 260 characters, which only an attempt shows. An attempt that
    fails for another reason says nothing: then the result is True.
    """
    if sys.platform != "win32":
        return True
    probe = folder / f"{PROBE}{'x' * (length - len(PROBE))}"
    try:
        _try_to_create(probe)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENAMETOOLONG, errno.EINVAL)
    return True


def _try_to_create(path: Path) -> None:
    """Create a file, and remove it again. Raises OSError."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    try_remove_file(path)


def is_document(path: Path) -> bool:
    """Return whether there is a file at an absolute path, however long or odd its name is.

    False also if the system refuses to say.
    """
    with suppress(OSError, ValueError):
        return Path(reachable_path(str(path))).is_file()
    return False


def is_link(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a folder is a link; on Windows junctions are links, too."""
    if entry.is_symlink():
        return True
    if sys.platform == "win32":
        status = entry.stat(follow_symlinks=False)
        return bool(getattr(status, "st_reparse_tag", 0) == _MOUNT_POINT)
    return False


def is_online_only(status: os.stat_result) -> bool:
    """Return whether reading a file would fetch it from a cloud.

    OneDrive on Windows, and iCloud and all other clouds on macOS mark such files.
    """
    windows_attributes = getattr(status, "st_file_attributes", 0)
    macos_flags = getattr(status, "st_flags", 0)
    return bool(windows_attributes & _RECALL_ON_DATA_ACCESS or macos_flags & _DATALESS)
