"""Whether another process holds a lock file of filelock."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def holder_file(lock: Path) -> Path:
    """Return the file that names the holder of a lock.

    On Windows nobody can read or write a file that is locked, so it is another one.
    """
    if sys.platform == "win32":
        return lock.with_suffix(f".holder{lock.suffix}")
    return lock


def is_held(path: Path) -> bool:
    """Return whether a lock is held by any process; False if there is no file.

    This takes the lock for a moment, to see whether that is possible. Except on Windows, read
    access suffices. Raises OSError if the file may not be read.
    """
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        if not path.exists():
            return False
        try:
            with FileLock(path, timeout=0):
                return False
        except Timeout:
            return True
    else:
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False
