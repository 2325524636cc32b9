"""The fork server, from which reading processes are forked on Linux.

It loads what reading needs and touches no file of the user. To fork a reading process takes a
hundredth of a second; to start one takes a third of a second.
"""

# Each process is confined after the fork, reads through its own pipes, and ends with the fork
# server. The fork server of multiprocessing would take over the whole environment, look for modules
# in the current folder, and import the program's main module in each process.
from __future__ import annotations

import ctypes
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

_STARTED = struct.Struct("i")
_ENDED = struct.Struct("ii")
"""Report of the fork server: the number of a process and how it ended.

Its exit code is as in `Popen.returncode`; its peak memory is in KiB.
"""
_START_SECONDS = 60.0
FORK_SECONDS = 20.0
_END_SECONDS = 1.0


class ForkedProcess:
    """A forked reading process with the interface of `subprocess.Popen`.

    `peak` is the maximum number of bytes that it held, 0 if unknown.
    """

    def __init__(self, pid: int, handle: int, status: socket.socket, pipes: Sequence[int]) -> None:
        self.pid = pid
        self.peak = 0
        self.returncode: int | None = None
        # True if the process ended with its fork server, so that nobody reports its exit code.
        self.is_orphan = False
        self.stdin: IO[bytes] | None = os.fdopen(pipes[0], "wb")
        self.stdout: IO[bytes] | None = os.fdopen(pipes[1], "rb", 0)
        self.stderr: IO[bytes] | None = os.fdopen(pipes[2], "rb")
        self._handle = handle
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process lives."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end, and return its exit code.

        Raises subprocess.TimeoutExpired.
        """
        end = time.monotonic() + (_START_SECONDS if timeout is None else timeout)
        while (code := self._ended(0.05)) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("reading", timeout or _START_SECONDS)
        return code

    def kill(self) -> None:
        """End the process."""
        with self._lock, suppress(ProcessLookupError):
            if self.returncode is None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _ended(self, seconds: float) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._handle], [], [], seconds)[0]:
                ready = select.select([self._status], [], [], _END_SECONDS)[0]
                if ready:
                    report = self._status.recv(_ENDED.size)
                else:
                    report = b""
                self.is_orphan = len(report) != _ENDED.size
                code, kib = (-signal.SIGKILL, 0) if self.is_orphan else _ENDED.unpack(report)
                self.returncode = code
                self.peak = kib * 1024
                os.close(self._handle)
                self._status.close()
            return self.returncode


class ForkServer:
    """The process from which all reading processes of a pool are forked.

    It starts when it is first needed, and again if it has ended.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket
        self._lost = not hasattr(os, "pidfd_open")
        self._lock = threading.Lock()

    def fork(self) -> ForkedProcess | None:
        """Fork a reading process.

        None if forking is not possible, or if the fork server does not answer.
        """
        if self._lost:
            return None
        theirs, ours = _pipes()
        status, theirs_too = socket.socketpair()
        try:
            with self._lock:
                if self._is_there():
                    patience = FORK_SECONDS
                else:
                    patience = _START_SECONDS
                socket.send_fds(self._control, [b"."], [*theirs, theirs_too.fileno()])
            # With this end open here, the loss of the fork server would go unnoticed.
            theirs_too.close()
            self._lost = not select.select([status], [], [], patience)[0]
            data, handles, *_ = (
                (b"", []) if self._lost else socket.recv_fds(status, _STARTED.size, 1)
            )
        except OSError:
            data = b""
            handles = []
        theirs_too.close()
        for pipe in theirs if handles else theirs + ours:
            os.close(pipe)
        if not handles:
            status.close()
            return None
        return ForkedProcess(_STARTED.unpack(data)[0], handles[0], status, ours)

    def _is_there(self) -> bool:
        """Start the process if necessary, and return whether it was running before."""
        if self._process is not None and self._process.poll() is None:
            return True
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )
        return False

    def end(self) -> None:
        """End the process, and with it all that it has forked."""
        with self._lock:
            self._lost = True
            if self._process is not None:
                self._control.close()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_SECONDS)
                self._process.kill()
                self._process.wait()


def _pipes() -> tuple[list[int], list[int]]:
    """Return their ends and our ends of pipes for standard input, output and errors."""
    (input_read, input_write), (output_read, output_write), (errors_read, errors_write) = (
        os.pipe() for _ in range(3)
    )
    return [input_read, output_write, errors_write], [input_write, output_read, errors_read]


def forked(control: socket.socket) -> list[int] | None:
    """Run the fork server: fork a process for each request, and report how it ended.

    Returns the three pipes in each forked process. Returns None in the fork server when nobody can
    send requests any more; all forked processes are then ended.
    """
    server = os.getpid()
    # Process number and status socket by process handle.
    children = dict[int, tuple[int, socket.socket]]()
    while True:
        ready = {*select.select([control.fileno(), *children], [], [])[0]}
        for handle in children.keys() & ready:
            pid, status = children.pop(handle)
            _, code, used = os.wait4(pid, 0)
            with suppress(OSError), status:
                status.send(_ENDED.pack(os.waitstatus_to_exitcode(code), used.ru_maxrss))
            os.close(handle)
        if control.fileno() not in ready:
            continue
        asked, files, *_ = socket.recv_fds(control, 1, 4)
        if not asked:
            break
        if not (pid := os.fork()):
            for handle, (_, other) in children.items():
                os.close(handle)
                other.close()
            os.close(files.pop())
            control.close()
            # Where the system shares the processor among sessions, each reading process gets its
            # own share.
            os.setsid()
            _end_with(server)
            return [*files]
        status = socket.socket(fileno=files.pop())
        for pipe in files:
            os.close(pipe)
        handle = os.pidfd_open(pid)
        children[handle] = pid, status
        with suppress(OSError):
            socket.send_fds(status, [_STARTED.pack(pid)], [handle])
    # Nobody else can have the number of a process that was not waited for.
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
    return None


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent is gone."""
    # The option 1 is PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL), *[ctypes.c_ulong(0)] * 3)
    if os.getppid() != parent:
        sys.exit(1)
