"""Where reading processes come from on Linux: a process that loads what reading needs, touches no file of the user, and divides.

A reading process is born in a hundredth of a second by that; to start one anew takes a third of one. Each is confined after it
is born, reads through pipes of its own, and ends with the process that it comes from.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

NUMBER = struct.Struct("i")
"""What a nursery tells: the number of a process that is born, and how it ended, as `Popen.returncode` tells it."""
_START_SECONDS = 60.0
_BEAR_SECONDS = 20.0
_END_SECONDS = 1.0
_LOOK_SECONDS = 0.05


class Born:
    """A reading process; it is used as a `subprocess.Popen` is."""

    def __init__(self, control: socket.socket, pid: int, pipes: Sequence[int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.is_orphan = False  # it ended because what it was born of did
        self.stdin: IO[bytes] | None = os.fdopen(pipes[0], "wb")
        self.stdout: IO[bytes] | None = os.fdopen(pipes[1], "rb", 0)
        self.stderr: IO[bytes] | None = os.fdopen(pipes[2], "rb")
        self._control, self._lock = control, threading.Lock()

    def poll(self) -> int | None:
        """How it ended; None while it lives."""
        with self._lock, suppress(BlockingIOError):
            if self.returncode is None:
                told = _received(self._control, socket.MSG_DONTWAIT)
                self.is_orphan = told is None
                self.returncode = -signal.SIGKILL if told is None else told
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has. Raises subprocess.TimeoutExpired."""
        end = time.monotonic() + (_START_SECONDS if timeout is None else timeout)
        while (code := self.poll()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("reading", timeout or _START_SECONDS)
            select.select([self._control], [], [], min(left, _LOOK_SECONDS))  # another thread may be told it first
        return code

    def kill(self) -> None:
        """End it. Its number is no other's before the next one is born."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """The process that reading processes of one thread come from, one after the other."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._lost, self._patience = False, _START_SECONDS
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                start_new_session=True,
            )  # fmt: skip

    def bear(self) -> Born | None:
        """Another reading process; the one before it must have ended. None where the nursery is lost."""
        if self._lost:
            return None
        theirs, ours = _pipes()
        pid = self._asked(theirs)
        self._patience = _BEAR_SECONDS  # all that it needs is loaded
        if pid is None:
            self.give_up()
        for pipe in theirs if pid is not None else theirs + ours:
            os.close(pipe)
        return None if pid is None else Born(self._control, pid, ours)

    def give_up(self) -> None:
        """Have nothing more of it: what it says from now on, it says too late."""
        self._lost = True
        self._process.kill()

    def _asked(self, pipes: Sequence[int]) -> int | None:
        try:
            socket.send_fds(self._control, [b"."], pipes)
            ready = select.select([self._control], [], [], self._patience)[0]
            return _received(self._control) if ready else None
        except (OSError, ValueError):
            return None

    def end(self) -> None:
        """End the process, once what was born of it has ended: what that used is counted by that."""
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()


def _pipes() -> tuple[list[int], list[int]]:
    """Their ends and ours of pipes for standard input, output and errors."""
    (input_read, input_write), (output_read, output_write), (errors_read, errors_write) = (os.pipe() for _ in range(3))
    return [input_read, output_write, errors_write], [input_write, output_read, errors_read]


def _received(control: socket.socket, flags: int = 0) -> int | None:
    """The next number that a nursery tells; None where it is lost. Raises BlockingIOError."""
    try:
        data = control.recv(NUMBER.size, flags)
    except BlockingIOError:
        raise
    except OSError:
        return None
    return int(NUMBER.unpack(data)[0]) if len(data) == NUMBER.size else None


def divide(control: socket.socket) -> list[int] | None:
    """The nursery's side: divides as often as it is asked to. Returns, in each process that is born, its three pipes; None in the
    nursery itself once nobody asks any more.
    """
    born = 0
    while True:
        asked, pipes, *_ = socket.recv_fds(control, 1, 3)
        if born:  # not before: its number would be given to another process, which a late signal would meet
            os.waitpid(born, 0)
        if not asked or len(pipes) != 3:
            return None
        born = os.fork()
        if not born:
            return list(pipes)
        for pipe in pipes:
            os.close(pipe)
        control.sendall(NUMBER.pack(born))
        control.sendall(NUMBER.pack(_ended(born, control)))


def _ended(pid: int, control: socket.socket) -> int:
    """How a process ended; it is ended when nobody is there any more to ask for its end: it may be busy for a minute."""
    with suppress(OSError):  # of a kernel before 5.3
        handle = os.pidfd_open(pid)
        try:
            if handle not in select.select([handle, control.fileno()], [], [])[0]:
                os.kill(pid, signal.SIGKILL)
        finally:
            os.close(handle)
    told = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if told is None:
        return 0
    return told.si_status if told.si_code == os.CLD_EXITED else -told.si_status


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when the one that it was born of is gone."""
    import ctypes

    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL), *[ctypes.c_ulong(0)] * 3)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)
