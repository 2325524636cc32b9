"""Being asked to stop: Ctrl-C, the end of the terminal, and the parent's request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO

STOP_LINE = b"stop\n"
CLOSING_SECONDS = 30.0  # Windows ends the process earlier.
_CLOSE_EVENT = 2  # CTRL_CLOSE_EVENT; CTRL_LOGOFF_EVENT and CTRL_SHUTDOWN_EVENT are greater.

if sys.platform == "win32":
    import ctypes

    TERMINAL_LOST = signal.SIGBREAK
    """The signal of a lost terminal; Ctrl-Break sends it, too."""
else:
    TERMINAL_LOST = signal.SIGHUP
    """The signal of a lost terminal."""

_keepers: list[object] = []


def notice_closing() -> None:
    """Turn the closing of the console window, logging off and shutting down into TERMINAL_LOST.

    Only Windows needs this: it ends a process some seconds after the handler was called, or at once
    when the handler returns. So the handler waits while the main thread stops.
    """
    if sys.platform == "win32" and not _keepers:

        def handle(event: int) -> bool:
            if event < _CLOSE_EVENT:
                return False
            signal.raise_signal(signal.SIGBREAK)
            time.sleep(CLOSING_SECONDS)
            return True

        handler = ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_ulong)(handle)
        if ctypes.windll.kernel32.SetConsoleCtrlHandler(handler, 1):
            _keepers.append(handler)


def take_input(*, buffered: bool = True) -> IO[bytes]:
    """Return this process's standard input, for a thread that waits for it.

    A thread that may still wait when Python exits needs it unbuffered. On Windows, libraries that
    are loaded meanwhile would wait, too, if they found the same pipe as standard input (numpy issue
    24290). There they find an empty one.
    """
    if sys.platform == "win32":
        source = os.fdopen(os.dup(0), "rb", -1 if buffered else 0)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        return source
    return sys.stdin.buffer if buffered else os.fdopen(0, "rb", 0, closefd=False)


def obey_parent(source: IO[bytes], stopping: threading.Event) -> None:
    """Exit at once when the parent dies, and set `stopping` when it asks for a stop.

    `source`: what `take_input` returned. The parent calls `ask_to_stop`; the end of the input means
    that it has died.
    """

    def watch() -> None:
        while line := source.readline():
            if line == STOP_LINE:
                stopping.set()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())


def ask_to_stop(child: subprocess.Popen[bytes]) -> None:
    """Ask a child process to stop at its next safe point.

    Windows has no signal for that, so a child that has a pipe as standard input gets a line.
    """
    if sys.platform == "win32" and child.stdin is not None:
        with suppress(OSError, ValueError):
            child.stdin.write(STOP_LINE)
            child.stdin.flush()
        return
    child.terminate()


def ignore_terminal_loss() -> None:
    """Go on when the terminal is lost."""
    signal.signal(TERMINAL_LOST, signal.SIG_IGN)


def is_default(number: int) -> bool:
    """Return whether a signal has the system's own handler; nohup ignores some."""
    return signal.getsignal(number) == signal.SIG_DFL
