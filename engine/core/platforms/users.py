"""Users and groups; on Windows the access lists of the user's profile take their place."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import grp


def user_number() -> int:
    """Return the number of this process's user, as in `os.stat_result.st_uid`; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    return os.geteuid()


def is_superuser() -> bool:
    """Return whether this process may do everything; False on Windows."""
    return sys.platform != "win32" and user_number() == 0


def is_private(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user and nobody else may read or write it.

    On Windows True: there access lists decide, which `engine doctor` speaks of.
    """
    if sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def find_group(name: str) -> int | None:
    """Return a group's number, None if there is no such group."""
    if sys.platform != "win32":
        with suppress(KeyError):
            return grp.getgrnam(name).gr_gid
    return None


def is_in_group(number: int) -> bool:
    """Return whether this user may give files to a group."""
    if sys.platform == "win32":
        return False
    return is_superuser() or number in (os.getegid(), *os.getgroups())


def system_folders() -> tuple[Path, ...]:
    """Return where administrators look first for a program's configuration; empty on Windows."""
    if sys.platform == "win32":
        return ()
    return (Path("/etc/bmembed"),)


def has_access_lists() -> bool:
    """Return whether access lists, and not modes, say who can open a file (Windows)."""
    return sys.platform == "win32"


def is_in_profile(path: Path) -> bool:
    """Return whether a path lies in the folder of this user, which is closed to other users.

    Elsewhere than on Windows, modes say that.
    """
    return path.resolve().is_relative_to(Path.home().resolve())


def has_capabilities() -> bool:
    """Return whether the rights of a superuser are divided (Linux, capabilities(7))."""
    return sys.platform == "linux"


def can_change_safely() -> bool:
    """Return whether `change_access` works here."""
    return sys.platform == "linux"


def change_access(
    path: Path,
    mode: int,
    group: int | None,
) -> None:
    """Set mode and group through a descriptor that only names the path (Linux).

    Opening the file itself would be wrong: closing it again drops the locks that SQLite holds on it
    in this process. A link is left alone. Raises OSError.
    """
    if sys.platform == "linux":
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            # A link may have replaced the file since it was listed.
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                place = Path(f"/proc/self/fd/{descriptor}")
                if group is not None:
                    os.chown(
                        place,
                        -1,
                        group,
                    )
                place.chmod(mode)
        finally:
            os.close(descriptor)
