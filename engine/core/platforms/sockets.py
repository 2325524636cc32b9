"""Unix sockets, which Python has on every system but Windows."""

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
