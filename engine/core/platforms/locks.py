"""Whether another process holds a lock file of filelock."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def is_held(path: Path) -> bool:
    """Return whether a lock is held; where there is no file, it is not.

    Elsewhere than on Windows, read access suffices. Raises OSError if the file may not be read.
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
