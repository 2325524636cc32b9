"""A fault of the app's own: recorded in a private file, shown in a sentence; the terminal sees
no traceback.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from engine.core.errors import fault_record


def record(error: BaseException) -> Path | None:
    """Write the traceback to the user's state folder, without messages and values of variables:
    they may quote a document.

    Returns the file, or None where it cannot be written.
    """
    from platformdirs import user_state_path

    folder = user_state_path("bmembed", appauthor=False)
    path = folder / f"fault-{time.strftime('%Y%m%d-%H%M%S')}.txt"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(fault_record(error))
    except OSError:
        return None
    return path


def fault_message(error: BaseException) -> str:
    """What the user reads."""
    path = record(error)
    if path:
        where = f"Its record is in {path}."
    else:
        where = "Its record could not be written."
    return (
        f"Error: bmembed-tui had an internal fault ({type(error).__name__}).\n{where}\nThe project"
        " is intact, and a run continues. Start the app again; if this happens again, report it"
        " with that record."
    )
