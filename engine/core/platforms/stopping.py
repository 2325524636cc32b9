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
CLOSING_SECONDS = 30.0  # Windows ends the process after about 5, wherever it is.
_CLOSE_EVENT = 2  # CTRL_CLOSE_EVENT

if sys.platform == "win32":
    import ctypes

    TERMINAL_LOST = signal.SIGBREAK
    """The signal of a lost terminal; Ctrl-Break sends it, too."""
    ORPHAN_SECONDS = 10.0
    """How long a stage whose parent was ended may take to its next safe point.

    Its parent has some seconds when the console window is closed. The next run waits for the stage.
    """
else:
    TERMINAL_LOST = signal.SIGHUP
    """The signal of a lost terminal."""
    ORPHAN_SECONDS = 0.0
    """How long a stage whose parent was ended may go on: a parent is asked before it is ended."""

_keepers: list[object] = []


def notice_closing() -> None:
    """Turn the closing of the console window into TERMINAL_LOST.

    Only Windows needs this: it ends a process about 5 seconds after the handler was called, or at
    once when the handler returns. So the handler waits while the main thread stops. Windows does
    not announce logging off and shutting down to programs that have loaded user32.dll, as libraries
    do: then a run ends as if it were killed, and resumes from its last checkpoint.
    """
    if sys.platform == "win32" and not _keepers:

        def handle(event: int) -> bool:
            if event != _CLOSE_EVENT:
                return False
            signal.raise_signal(signal.SIGBREAK)
            time.sleep(CLOSING_SECONDS)
            return True

        handler = ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_ulong)(handle)
        if ctypes.windll.kernel32.SetConsoleCtrlHandler(handler, 1):
            _keepers.append(handler)


def take_input(*, buffered: bool = True) -> IO[bytes]:
    """Return this process's standard input, for a thread that waits for it.

    A thread that may still wait when Python exits needs it unbuffered: it would hold the lock of a
    buffer. On Windows, libraries that are loaded meanwhile would wait, too, if they found the same
    pipe as standard input (numpy issue 24290). There they find an empty one.
    """
    if sys.platform == "win32":
        source = os.fdopen(
            os.dup(0),
            "rb",
            -1 if buffered else 0,
        )
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        return source
    return sys.stdin.buffer if buffered else os.fdopen(0, "rb", 0, closefd=False)


def obey_parent(
    source: IO[bytes],
    stopping: threading.Event,
    orphan_seconds: float = 0.0,
) -> None:
    """Exit when the parent dies, and set `stopping` when it asks for a stop.

    `source`: what `take_input` returned. The parent calls `ask_to_stop`; the end of the input means
    that it has died. Then `stopping` is set, too, `orphan_seconds` before the exit.
    """

    def watch() -> None:
        while line := source.readline():
            if line == STOP_LINE:
                stopping.set()
        stopping.set()
        time.sleep(orphan_seconds)
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
