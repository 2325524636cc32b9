"""Unix sockets, which Python has on every system but Windows, the loopback interface and errors."""

from __future__ import annotations

import os
import socket
import sys

if sys.platform == "win32":
    import ctypes

_FIRST_SOCKET_ERROR = 10_000
"""Windows numbers errors of sockets apart from those of C."""


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


def describe_socket_error(error: OSError) -> str:
    """Return the system's words for a connection that failed, in lower case.

    Python's own words name the call and the address.
    """
    number = error.errno or 0
    if sys.platform == "win32":
        # To C, most of these are an invalid argument or unknown.
        number = error.winerror or number
        if error.winerror or number >= _FIRST_SOCKET_ERROR:
            return ctypes.FormatError(number).strip(". \r\n").lower()
    return os.strerror(number).lower()
