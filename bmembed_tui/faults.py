"""Internal faults of the app: a private record of the traceback, and a message without one."""

from __future__ import annotations

import os
import time
from pathlib import Path

from engine.core.errors import fault_record
from engine.core.platforms.files import open_private


def write_record(error: BaseException) -> Path | None:
    """Write the traceback to the user's state folder and return the file.

    Messages and values of variables are left out, since they may quote a document. Returns None
    where the file cannot be written.
    """
    from platformdirs import user_state_path

    folder = user_state_path("bmembed", appauthor=False)
    path = folder / f"fault-{time.strftime('%Y%m%d-%H%M%S')}.txt"
    try:
        folder.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(fault_record(error))
    except OSError:
        return None
    return path


def report_fault(error: BaseException) -> str:
    """Record the fault and return the message for the user."""
    path = write_record(error)
    if path:
        record_note = f"Its record is in {path}."
    else:
        record_note = "Its record could not be written."
    return (
        f"Error: bmembed-tui had an internal fault ({type(error).__name__}).\n{record_note}\nThe"
        " project is intact, and a run continues. Start the app again; if this happens again,"
        " report it with that record."
    )
