"""Standard streams, and pipes: reading with a time limit, writing when nobody reads any more."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import IO, TextIO

if sys.platform == "win32":
    import queue
    import threading
else:
    import select

# Bytes that a pipe holds on Linux. Room for more would be taken from the system and given back at
# every read.
_PIECE = 2**16
_END_SECONDS = 1.0
_MAX_AHEAD = 64  # Pieces that a thread reads ahead, on Windows.


def has_lost_reader(error: BaseException | None) -> bool:
    """Return whether a write failed since nobody reads the pipe any more.

    Windows calls that an invalid argument, as it does the name of a file that cannot be.
    """
    if sys.platform == "win32" and isinstance(error, OSError) and error.filename is None:
        return error.errno in (errno.EPIPE, errno.EINVAL)
    return isinstance(error, BrokenPipeError)


def discard_output(descriptor: int = 1) -> None:
    """Send what is written to standard output, or to another descriptor, to nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def open_missing_streams() -> None:
    """Replace standard streams that are closed by the null device.

    A file that is opened later, such as the database, would get the number of a standard stream,
    and what libraries print would go into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)
        mode = "r" if name == "stdin" else "w"
        stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def accept_any_text(stream: TextIO | None) -> None:
    """Have any text pass through a standard stream.

    On Windows that is UTF-8: a pipe would get the code page of the system, which lacks most
    letters. Elsewhere what the locale's encoding lacks is written as `\\u2713`.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return
    if sys.platform == "win32":
        stream.reconfigure(encoding="utf-8")
    elif stream.writable() and stream.encoding.lower() != "utf-8":
        stream.reconfigure(errors="backslashreplace")


class PipeReader:
    """Reads what arrives in a pipe, without waiting for ever.

    Windows cannot wait for pipes, so that a thread reads there.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        if sys.platform == "win32":
            self._pieces: queue.Queue[bytes] = queue.Queue(_MAX_AHEAD)
            self._has_ended = False
            self._thread = threading.Thread(target=self._read_ahead, daemon=True)
            self._thread.start()

    def read(self, seconds: float) -> bytes | None:
        """Return the next bytes, b"" at the end, None if nothing arrives in time.

        Raises OSError or ValueError if the pipe was closed here.
        """
        if sys.platform == "win32":
            return self._take(seconds)
        else:
            number = self._pipe.fileno()
            if seconds <= 0 or not select.select([number], [], [], seconds)[0]:
                return None
            return os.read(number, _PIECE)

    def close(self) -> None:
        """Close the pipe, whose other end should be closed by now.

        While a thread still reads it, closing would wait for ever: then it stays open.
        """
        if sys.platform == "win32":
            # Room in the queue lets the thread read on, to the end of the pipe.
            while not self._pieces.empty():
                self._pieces.get_nowait()
            self._thread.join(_END_SECONDS)
            if self._thread.is_alive():
                return
        with suppress(OSError):
            self._pipe.close()

    if sys.platform == "win32":

        def _take(self, seconds: float) -> bytes | None:
            """Return the next bytes that the thread has read; see `read`."""
            if self._has_ended:
                return b""
            try:
                piece = self._pieces.get(timeout=max(0.0, seconds))
            except queue.Empty:
                return None
            self._has_ended = not piece
            return piece

        def _read_ahead(self) -> None:
            """Read the pipe to its end, which the last piece, b"", stands for."""
            piece = b"."
            while piece:
                try:
                    piece = os.read(self._pipe.fileno(), _PIECE)
                except (OSError, ValueError):
                    piece = b""
                self._pieces.put(piece)


def can_wait_for_pipes() -> bool:
    """Return whether a thread can wait for a pipe for a time; on Windows it waits for ever."""
    return sys.platform != "win32"
