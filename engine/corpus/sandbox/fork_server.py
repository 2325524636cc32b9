"""Where reading processes come from on Linux: a process that loads what reading needs, touches no file of the user, and divides.

To fork a reading process takes a hundredth of a second; to start one anew takes a third of one. Each thread that reads has a fork
server of its own, which waits for what it has forked; fork servers are forked in the same way, by one process that has loaded
everything. Each is confined once it is forked, reads through pipes of its own, and ends with the process that it comes from.
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
"""What a fork server sends: the number of a process that it forked, how that ended, as in `Popen.returncode`, and its memory."""
_START_SECONDS = 60.0
FORK_SECONDS = 20.0
_END_SECONDS = 1.0
_LOOK_SECONDS = 0.05


class ForkedProcess:
    """A reading process; it is used as a `subprocess.Popen` is."""

    def __init__(self, control: socket.socket, pid: int, pipes: Sequence[int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.is_orphan = False  # it ended because its fork server did
        self.stdin: IO[bytes] | None = os.fdopen(pipes[0], "wb")
        self.stdout: IO[bytes] | None = os.fdopen(pipes[1], "rb", 0)
        self.stderr: IO[bytes] | None = os.fdopen(pipes[2], "rb")
        self._control, self._lock = control, threading.Lock()
        self._peak: int | None = None

    def poll(self) -> int | None:
        """How it ended; None while it lives."""
        with self._lock, suppress(BlockingIOError):
            if self.returncode is None:
                status = _received(self._control, socket.MSG_DONTWAIT)
                self.is_orphan = status is None
                self.returncode = -signal.SIGKILL if status is None else status
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has. Raises subprocess.TimeoutExpired."""
        end = time.monotonic() + (_START_SECONDS if timeout is None else timeout)
        while (code := self.poll()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("reading", timeout or _START_SECONDS)
            select.select([self._control], [], [], min(left, _LOOK_SECONDS))  # another thread may receive it first
        return code

    def peak_memory(self) -> int | None:
        """Bytes of memory that it held at most, once it has ended; None where it is not known. To be asked before the next one is
        forked.
        """
        with self._lock:
            if self.returncode is None or self.is_orphan:
                return None
            if self._peak is None:
                self._peak = _asked(self._control, (), FORK_SECONDS)
            if self._peak is None:
                self._control.close()  # what comes too late would be taken for the number of the next one
            return self._peak and self._peak * 1024

    def kill(self) -> None:
        """End it. Its number is no other's before the next one is forked."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """The process that reading processes of one thread come from, one after the other; `ForkServers` has it."""

    def __init__(self, control: socket.socket, pid: int, source: subprocess.Popen[bytes]) -> None:
        self._control, self._pid, self._source, self._lost = control, pid, source, False

    def fork(self) -> ForkedProcess | None:
        """Another reading process; the one before it must have ended. None where the fork server is lost."""
        if self._lost:
            return None
        theirs, ours = _pipes()
        pid = _asked(self._control, theirs, FORK_SECONDS)
        if pid is None:
            self.give_up()
        for pipe in theirs if pid is not None else theirs + ours:
            os.close(pipe)
        return None if pid is None else ForkedProcess(self._control, pid, ours)

    def give_up(self) -> None:
        """Have nothing more of it: what it says from now on, it says too late."""
        self._lost = True
        if self._source.poll() is None:  # until then its number is no other's; and it ends with what it comes from
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def end(self) -> None:
        """Have the process end by itself, once what it has forked has ended: what that used is counted by that."""
        self._control.close()


class ForkServers:
    """The process that fork servers come from: what reading needs is loaded once, however many threads want it. It starts
    when it is first needed.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._source: subprocess.Popen[bytes] | None = None
        self._control: socket.socket
        self._lost, self._lock = False, threading.Lock()

    def another(self) -> ForkServer | None:
        """One more fork server, for any thread; None where the process that they come from is lost."""
        with self._lock:
            if self._lost:
                return None
            patience = FORK_SECONDS
            if self._source is None:
                patience, self._source = _START_SECONDS, self._started()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            with theirs:
                pid = _asked(self._control, [theirs.fileno()], patience)
            if pid is None:
                self._lost = True
                ours.close()
            return None if pid is None else ForkServer(ours, pid, self._source)

    def _started(self) -> subprocess.Popen[bytes]:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            return subprocess.Popen(
                self._command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=self._environment, start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """End the process, and with it all fork servers that have not ended by themselves."""
        with self._lock:
            self._lost = True
            if self._source is not None:
                self._control.close()
                with suppress(subprocess.TimeoutExpired):
                    self._source.wait(_END_SECONDS)
                self._source.kill()
                self._source.wait()


def _asked(control: socket.socket, files: Sequence[int], patience: float) -> int | None:
    """The number of the process that is forked with some files; without any, what a fork server reports of the last one.
    None where the process that was asked is lost.
    """
    try:
        socket.send_fds(control, [b"."], files)
        ready = select.select([control], [], [], patience)[0]
        return _received(control) if ready else None
    except (OSError, ValueError):
        return None


def _pipes() -> tuple[list[int], list[int]]:
    """Their ends and ours of pipes for standard input, output and errors."""
    (input_read, input_write), (output_read, output_write), (errors_read, errors_write) = (os.pipe() for _ in range(3))
    return [input_read, output_write, errors_write], [input_write, output_read, errors_read]


def _received(control: socket.socket, flags: int = 0) -> int | None:
    """The next number that a fork server sends; None where it is lost. Raises BlockingIOError."""
    try:
        data = control.recv(NUMBER.size, flags)
    except BlockingIOError:
        raise
    except OSError:
        return None
    return int(NUMBER.unpack(data)[0]) if len(data) == NUMBER.size else None


def found(control: socket.socket) -> socket.socket | None:
    """The source of the fork servers: forks one for each request. Returns, in each fork server, the socket of its requests;
    None in the process itself once nobody asks any more and all of them have ended.
    """
    fork_servers: list[int] = []
    while True:
        asked, files, *_ = socket.recv_fds(control, 1, 1)
        if not asked or len(files) != 1:
            break
        fork_server = os.fork()
        if not fork_server:
            os.setsid()  # the processor is shared out by sessions where the system does so: one for each that reads
            return socket.socket(fileno=files[0])
        os.close(files[0])
        fork_servers.append(fork_server)
        control.sendall(NUMBER.pack(fork_server))
    # Not before: a fork server's number would be given to another process, which a late signal would meet.
    for fork_server in fork_servers:
        os.waitpid(fork_server, 0)
    return None


def divide(control: socket.socket) -> list[int] | None:
    """The fork server: forks a process for each request, and reports how many KiB of memory the last one held at most where
    no pipes come with the request. Returns, in each forked process, its three pipes; None in the fork server itself once
    nobody asks any more.
    """
    forked = 0
    while True:
        asked, pipes, *_ = socket.recv_fds(control, 1, 3)
        # not before: its number would be given to another process, which a late signal would meet
        peak = os.wait4(forked, 0)[2].ru_maxrss if forked else 0
        forked = 0
        if asked and not pipes:
            control.sendall(NUMBER.pack(peak))
            continue
        if len(pipes) != 3:
            return None
        forked = os.fork()
        if not forked:
            return list(pipes)
        for pipe in pipes:
            os.close(pipe)
        control.sendall(NUMBER.pack(forked))
        control.sendall(NUMBER.pack(_ended(forked, control)))


def _ended(pid: int, control: socket.socket) -> int:
    """How a process ended; it is ended when nobody is there any more to ask for its end: it may be busy for a minute."""
    with suppress(OSError):  # of a kernel before 5.3
        handle = os.pidfd_open(pid)
        try:
            if handle not in select.select([handle, control.fileno()], [], [])[0]:
                os.kill(pid, signal.SIGKILL)
        finally:
            os.close(handle)
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if status is None:
        return 0
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent is gone."""
    import ctypes

    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL), *[ctypes.c_ulong(0)] * 3)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)
