"""Unix sockets, which Python has on every system but Windows, and the loopback interface."""

from __future__ import annotations

import socket
import sys


def has_unix_sockets() -> bool:
    """Return whether `listen_at` works here."""
    return sys.platform != "win32"


def listen_at(path: str) -> socket.socket:
    """Return a unix socket that listens at a path.

    Raises OSError.
    """
    if sys.platform == "win32":
        raise OSError("there are no unix sockets")
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        return listener


def loopback_interface() -> str | None:
    """Return the name of the interface that reaches this machine alone; None on Windows."""
    if sys.platform == "win32":
        return None
    return "lo0" if sys.platform == "darwin" else "lo"
