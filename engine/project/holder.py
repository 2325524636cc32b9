"""Who holds a lock of a project: written into the lock's file by the holder, for whoever has to wait."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path


def record_holder(lock: Path) -> None:
    """Name this process in the file of a lock that it holds. A full disk leaves it without a name."""
    program = Path(sys.argv[0]).name
    command = (
        shlex.join(["engine", *sys.argv[1:]]) if program in ("engine", "__main__.py") else "a run in the background"
    )
    with suppress(OSError):
        lock.write_text(f"{os.getpid()} {datetime.now():%Y-%m-%d %H:%M} {command}", encoding="utf-8", errors="replace")


def holder_of(lock: Path) -> str:
    """`engine run handbook (process 4711, since 2026-11-28 13:05)`; empty where that is not known."""
    import psutil

    with suppress(OSError, ValueError):
        pid, date, clock, command = lock.read_text(encoding="utf-8").split(" ", 3)
        if psutil.pid_exists(int(pid)):
            return f"{command} (process {pid}, since {date} {clock})"
    return ""
