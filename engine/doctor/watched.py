"""A program whose sockets the kernel refuses, with a record of what it tried and of the files
that it opened (Linux).

A seccomp filter, which the program's children inherit and cannot take off, sends every call that
makes a socket or opens a file to this process (seccomp_unotify(2)). Sockets are answered with
EPERM, files are opened as asked. If this process dies, the calls fail. Only what a reader of
documents asks for within its own, stricter filter is refused without being seen here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from engine.core.errors import ResourceError
from engine.core.seccomp import ALLOW, EQUAL, ERRNO, RETURN, install, machine
from engine.core.subprocesses import end, spawn

_NEW_LISTENER = 8
_REFUSE = ERRNO + errno.EPERM
_NOTIFY = 0x7FC00000
_RECEIVE = 0xC0502100  # ioctl
_SEND = 0xC0182101
_SET_FLAGS = 0x40082104
_SAME_CORE = 1
_NOTICE = struct.Struct("QIIiIQ6Q")  # seccomp_notif, seccomp_notif_resp
_ANSWER = struct.Struct("QqiI")
_CONTINUE = (0, 1)
_EPERM = (-1, 0)
_HERE = -100  # AT_FDCWD
_LONGEST_PATH = 4096
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class _Named(NamedTuple):
    """Which arguments of a call are the folder (None: none) and the path of a file, and whether
    it is read or written; in "flags", and in "how" a pointer to them, the argument after the
    path says that.
    """

    folder: int | None
    path: int
    mode: Literal["read", "written", "flags", "how"] = "read"


class _Calls(NamedTuple):
    """Numbers of system calls.

    `paths`: those that open, execute, cut or rename a file; of a renamed one the new name counts.
    """

    socket: int
    paths: dict[int, _Named]


_URING = 425  # io_uring_setup: sockets could be made by it
_X86 = {
    2: _Named(None, 0, "flags"),
    257: _Named(0, 1, "flags"),
    437: _Named(0, 1, "how"),
    85: _Named(None, 0, "written"),
    59: _Named(None, 0),
    322: _Named(0, 1),
    76: _Named(None, 0, "written"),
    82: _Named(None, 1, "written"),
    264: _Named(2, 3, "written"),
    316: _Named(2, 3, "written"),
}
_ARM = {
    56: _Named(0, 1, "flags"),
    437: _Named(0, 1, "how"),
    221: _Named(None, 0),
    281: _Named(0, 1),
    45: _Named(None, 0, "written"),
    38: _Named(2, 3, "written"),
    276: _Named(2, 3, "written"),
}
_CALLS = {"x86_64": _Calls(41, _X86), "aarch64": _Calls(198, _ARM)}


@dataclass(frozen=True, slots=True)
class SocketAttempt:
    """A socket that was asked for and refused: its family, such as AF_INET, and the command line
    of the process.
    """

    family: str
    process: str


@dataclass(slots=True)
class Watched:
    """What a program and its children did.

    `read`, `written`: files that they opened, by absolute path.
    """

    exit_code: int = 0
    output: str = ""
    sockets: list[SocketAttempt] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)


def run_watched(command: Sequence[str], environ: Mapping[str, str]) -> Watched:
    """Run `command` to its end without sockets.

    Raises ResourceError where the kernel cannot do this.
    """
    found = Watched()
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as output:
        with theirs:
            child = spawn(
                "engine.doctor.watched",
                [str(theirs.fileno()), *command],
                environ,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            listeners = socket.recv_fds(ours, 1, 1)[1]
            if not listeners:
                raise unavailable()
            with os.fdopen(listeners[0]) as listener:
                _attend(listener.fileno(), found)
            found.exit_code = child.wait()
        finally:
            end(child)
        output.seek(0)
        found.output = output.read().decode("utf-8", "replace")
    return found


def unavailable() -> ResourceError:
    """The error of a system on which sockets cannot be refused and watched."""
    return ResourceError(
        "This system cannot refuse sockets and record the attempts.",
        "That needs Linux 5.5 or later on x86-64 or ARM64, with seccomp, and no other program that"
        " filters system calls.",
        "Run it on such a machine, outside a restricted container.",
        code="proof-unavailable",
    )


def _attend(listener: int, found: Watched) -> None:
    """Answer the kernel's notices until the last process under the filter has ended."""
    calls = _CALLS[machine()]
    with contextlib.suppress(OSError):  # before Linux 6.6
        fcntl.ioctl(listener, _SET_FLAGS, _SAME_CORE)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not (events := poll.poll())[0][1] & select.POLLHUP or events[0][1] & select.POLLIN:
        notice = bytearray(_NOTICE.size)
        with contextlib.suppress(OSError):  # the caller was killed meanwhile
            fcntl.ioctl(listener, _RECEIVE, notice, True)
            number, process, _, call, _, _, *arguments = _NOTICE.unpack(notice)
            answer = _CONTINUE if call in calls.paths else _EPERM
            if answer is _EPERM:
                found.sockets.append(
                    SocketAttempt(_family(call, arguments[0]), _command_line(process))
                )
            else:
                _note_file(found, process, calls.paths[call], arguments)
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, *answer))


def _family(call: int, number: int) -> str:
    if call == _URING:
        return "io_uring"
    try:
        return socket.AddressFamily(number).name
    except ValueError:
        return f"family {number}"


def _command_line(process: int) -> str:
    with contextlib.suppress(OSError), Path("/proc", str(process), "cmdline").open("rb") as file:
        return " ".join(os.fsdecode(file.read(_LONGEST_PATH)).split("\0")).strip()
    return f"process {process}"


def _note_file(found: Watched, process: int, named: _Named, arguments: Sequence[int]) -> None:
    with contextlib.suppress(OSError):
        name = os.fsdecode(
            _memory(process, arguments[named.path], _LONGEST_PATH).split(b"\0", 1)[0]
        )
        if named.folder is None:
            number = _HERE
        else:
            number = ctypes.c_int(arguments[named.folder]).value
        base = Path("/proc", str(process), "cwd" if number == _HERE else f"fd/{number}").readlink()
        whole = os.path.normpath(base / name)
        if _writes(process, named, arguments):
            found.written.add(whole)
        elif whole not in found.read and Path(whole).is_file():
            found.read.add(whole)


def _writes(process: int, named: _Named, arguments: Sequence[int]) -> bool:
    if named.mode in ("read", "written"):
        return named.mode == "written"
    flags = arguments[named.path + 1]
    if named.mode == "how":
        flags = int.from_bytes(
            _memory(process, flags, 8), sys.byteorder
        )  # struct open_how begins with them
    return bool(flags & _WRITING)


def _memory(process: int, address: int, size: int) -> bytes:
    with Path("/proc", str(process), "mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(size)


def _listener() -> int:
    """Put the filter on this process; the file descriptor of its notices, below 0 where there is
    none.
    """
    calls = _CALLS.get(machine())
    if calls is None or _kernel() < (5, 5):  # older ones cannot let a call go on
        return -1
    steps = [
        step
        for number in (calls.socket, _URING, *calls.paths)
        for step in ((EQUAL, 0, 1, number), (RETURN, 0, 0, _NOTIFY))
    ]
    return install([*steps, (RETURN, 0, 0, ALLOW)], _REFUSE, _NEW_LISTENER)


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


def _become(channel: str, *command: str) -> None:
    with socket.socket(fileno=int(channel)) as parent:
        if (listener := _listener()) < 0:
            sys.exit(6)
        socket.send_fds(parent, [b"."], [listener])
        os.close(listener)
    os.execv(command[0], command)


if __name__ == "__main__":
    _become(*sys.argv[1:])
