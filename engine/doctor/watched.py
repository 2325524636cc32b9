"""Run a program whose sockets the kernel refuses, and record its attempts and its files (Linux).

A seccomp filter, which children inherit and cannot remove, reports every call that makes a socket
or opens a file to this process (seccomp_unotify(2)). A socket is refused with EPERM, a file is
opened as asked. If this process dies, the calls fail. Calls that the stricter filter of a document
reader refuses are not reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
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
from engine.core.platforms import notices
from engine.core.platforms.seccomp import ALLOW, EQUAL, ERRNO, RETURN, install, machine
from engine.core.subprocesses import end_child, spawn

_NEW_LISTENER = 8  # SECCOMP_FILTER_FLAG_NEW_LISTENER
_REFUSE = ERRNO + errno.EPERM
_NOTIFY = 0x7FC00000  # SECCOMP_RET_USER_NOTIF
# seccomp_notif: id, pid, flags, and of the call: number, architecture, instruction, six arguments
_NOTICE = struct.Struct("QIIiIQ6Q")
# seccomp_notif_resp: id, the call's result, error, flags
_ANSWER = struct.Struct("QqiI")
# Error and flags of an answer; 1: SECCOMP_USER_NOTIF_FLAG_CONTINUE.
_CONTINUE = (0, 1)
_EPERM = (-errno.EPERM, 0)
_CURRENT_FOLDER = -100  # AT_FDCWD
_MAX_PATH = 4096  # PATH_MAX
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class _PathArguments(NamedTuple):
    """Positions of the arguments of a system call that name a file."""

    # Descriptor of the folder that the path starts at; None if the call has none.
    folder: int | None
    path: int  # Address of the path.
    # How the file is opened. "flags": the argument after the path says; "how": it points to the
    # flags.
    mode: Literal["read", "written", "flags", "how"] = "read"


class _Calls(NamedTuple):
    """Numbers of system calls."""

    socket: int  # The call that makes a socket.
    # Calls that open, execute, truncate or rename a file (the new name counts).
    paths: dict[int, _PathArguments]


_URING = 425  # io_uring_setup: io_uring can make sockets
_X86 = {
    2: _PathArguments(None, 0, "flags"),  # open
    257: _PathArguments(0, 1, "flags"),  # openat
    437: _PathArguments(0, 1, "how"),  # openat2
    85: _PathArguments(None, 0, "written"),  # creat
    59: _PathArguments(None, 0),  # execve
    322: _PathArguments(0, 1),  # execveat
    76: _PathArguments(None, 0, "written"),  # truncate
    82: _PathArguments(None, 1, "written"),  # rename
    264: _PathArguments(2, 3, "written"),  # renameat
    316: _PathArguments(2, 3, "written"),  # renameat2
}
_ARM = {
    56: _PathArguments(0, 1, "flags"),  # openat
    437: _PathArguments(0, 1, "how"),  # openat2
    221: _PathArguments(None, 0),  # execve
    281: _PathArguments(0, 1),  # execveat
    45: _PathArguments(None, 0, "written"),  # truncate
    38: _PathArguments(2, 3, "written"),  # renameat
    276: _PathArguments(2, 3, "written"),  # renameat2
}
_CALLS = {"x86_64": _Calls(41, _X86), "aarch64": _Calls(198, _ARM)}  # by machine


@dataclass(frozen=True, slots=True)
class SocketAttempt:
    """A socket that was refused."""

    family: str  # Such as AF_INET.
    process: str  # Command line of the process that asked for it.


@dataclass(slots=True)
class WatchedProgram:
    """What a program and its children did."""

    exit_code: int = 0
    output: str = ""
    sockets: list[SocketAttempt] = field(default_factory=list)
    read: set[str] = field(default_factory=set)  # Absolute paths of files opened for reading.
    written: set[str] = field(default_factory=set)  # Absolute paths of files opened for writing.


def run_watched(command: Sequence[str], environ: Mapping[str, str]) -> WatchedProgram:
    """Run `command` to its end without sockets, and return what it did.

    Raises ResourceError where the kernel cannot do this.
    """
    program = WatchedProgram()
    if not machine():
        raise build_unavailable_error()
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
            descriptor = notices.receive_descriptor(ours)
            if descriptor is None:
                raise build_unavailable_error()
            with os.fdopen(descriptor) as listener:
                _answer_notices(listener.fileno(), program)
            program.exit_code = child.wait()
        finally:
            end_child(child)
        output.seek(0)
        program.output = output.read().decode("utf-8", "replace")
    return program


def build_unavailable_error() -> ResourceError:
    """Return the error for a system on which sockets cannot be refused and watched."""
    return ResourceError(
        "This system cannot refuse sockets and record the attempts.",
        "That needs Linux 5.5 or later on x86-64 or ARM64, with seccomp, and no other program that"
        " filters system calls.",
        "Run it on such a machine, outside a restricted container.",
        code="proof-unavailable",
    )


def _answer_notices(listener: int, program: WatchedProgram) -> None:
    """Answer the kernel's notices until the last process under the filter has ended."""
    notices.stay_on_one_core(listener)
    while notices.wait_for_notice(listener):
        with contextlib.suppress(OSError):  # the calling process was killed meanwhile
            _answer_notice(listener, program)


def _answer_notice(listener: int, program: WatchedProgram) -> None:
    """Record the next call that the filter reports, and let it continue or refuse it."""
    paths = _CALLS[machine()].paths
    notice = bytearray(_NOTICE.size)
    notices.receive_notice(listener, notice)
    notice_id, process, _flags, call, _machine, _instruction, *arguments = _NOTICE.unpack(notice)
    if call in paths:
        answer = _CONTINUE
        _record_file(
            program,
            process,
            paths[call],
            arguments,
        )
    else:
        answer = _EPERM
        family = _name_family(call, arguments[0])
        program.sockets.append(SocketAttempt(family, _read_command_line(process)))
    notices.answer_notice(listener, _ANSWER.pack(notice_id, 0, *answer))


def _name_family(call: int, number: int) -> str:
    """Return the name of the family of sockets that a call asks for."""
    if call == _URING:
        return "io_uring"
    try:
        return socket.AddressFamily(number).name
    except ValueError:
        return f"family {number}"


def _read_command_line(process: int) -> str:
    """Return the command line of a process, or its number if it has ended."""
    with contextlib.suppress(OSError), Path("/proc", str(process), "cmdline").open("rb") as file:
        return " ".join(os.fsdecode(file.read(_MAX_PATH)).split("\0")).strip()
    return f"process {process}"


def _record_file(
    program: WatchedProgram, process: int, positions: _PathArguments, arguments: Sequence[int]
) -> None:
    """Record the file that a call opens."""
    with contextlib.suppress(OSError):
        text = _read_memory(
            process,
            arguments[positions.path],
            _MAX_PATH,
        )
        name = os.fsdecode(text.split(b"\0", 1)[0])
        descriptor = _CURRENT_FOLDER
        if positions.folder is not None:
            # Arguments are unsigned 64-bit numbers, descriptors are signed ints.
            descriptor = ctypes.c_int(arguments[positions.folder]).value
        link = "cwd" if descriptor == _CURRENT_FOLDER else f"fd/{descriptor}"
        folder = Path("/proc", str(process), link).readlink()
        path = os.path.normpath(folder / name)
        if _is_writing(process, positions, arguments):
            program.written.add(path)
        # Libraries are looked for in many folders: only files that exist count.
        elif path not in program.read and Path(path).is_file():
            program.read.add(path)


def _is_writing(
    process: int,
    positions: _PathArguments,
    arguments: Sequence[int],
) -> bool:
    """Return whether a call opens a file for writing."""
    if positions.mode in ("read", "written"):
        return positions.mode == "written"
    argument = arguments[positions.path + 1]
    if positions.mode == "how":
        # It points to the structure open_how, which begins with the flags.
        flags = int.from_bytes(_read_memory(process, argument, 8), sys.byteorder)
    else:
        flags = argument
    return bool(flags & _WRITING)


def _read_memory(
    process: int,
    address: int,
    size: int,
) -> bytes:
    """Return up to `size` bytes of a process's memory."""
    with Path("/proc", str(process), "mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(size)


def _install_filter() -> int:
    """Install the filter on this process, and return the descriptor of its notices.

    Below 0 if the filter cannot be installed.
    """
    calls = _CALLS.get(machine())
    if calls is None or _read_kernel_version() < (5, 5):  # older ones cannot continue a call
        return -1
    steps: list[tuple[int, int, int, int]] = []
    for number in (calls.socket, _URING, *calls.paths):
        # Unless the call has this number, skip the next step.
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, _NOTIFY)]
    return install(
        [*steps, (RETURN, 0, 0, ALLOW)],
        _REFUSE,
        _NEW_LISTENER,
    )


def _read_kernel_version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


def _run_filtered(channel: str, *command: str) -> None:
    """Install the filter, send the descriptor of its notices to the parent, and become `command`.

    `channel`: descriptor of the socket to the parent.
    """
    with socket.socket(fileno=int(channel)) as parent:
        listener = _install_filter()
        if listener < 0:
            sys.exit(6)  # the parent sees that no descriptor came
        notices.send_descriptor(parent, listener)
        os.close(listener)
    os.execv(command[0], command)


if __name__ == "__main__":
    _run_filtered(*sys.argv[1:])
