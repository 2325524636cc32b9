"""Who holds a lock of a project: written into the lock's file by the holder, for whoever has to wait."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path


def record_holder(lock: Path) -> None:
    """Name this process in the file of a lock that it holds: its command, without arguments: they may be a query. A full disk
    leaves it without a name."""
    own = "engine" in Path(sys.argv[0]).parts[-2:] and len(sys.argv) > 1
    command = f"engine {sys.argv[1]}" if own else "a run in the background"
    with suppress(OSError):
        lock.write_text(f"{os.getpid()} {datetime.now():%Y-%m-%d %H:%M} {command}", encoding="utf-8", errors="replace")


def holder_of(lock: Path) -> str:
    """`engine run (process 4711, since 2026-11-28 13:05)`; empty where that is not known."""
    import psutil

    with suppress(OSError, ValueError):
        pid, date, clock, command = lock.read_text(encoding="utf-8").split(" ", 3)
        if psutil.pid_exists(int(pid)):
            return f"{command} (process {pid}, since {date} {clock})"
    return ""
