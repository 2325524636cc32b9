"""What a reading process takes from itself before it touches a file: memory, time, the network, other programs, writing.

On Linux the kernel refuses (seccomp) to make sockets, to connect, and to start programs; elsewhere the limits on memory,
time and writing hold as far as the system knows them.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from contextlib import suppress

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: load a word; jump if equal; jump if >=; return
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # go on; fail with EPERM
_X32 = 0x40000000
# Per architecture: its number for audit, and the system calls socket, connect, bind, listen, ptrace, and io_uring_setup
# (which could do all of these unseen); then execve, execveat.
_CALLS = {
    "x86_64": (0xC000003E, (41, 42, 49, 50, 101, 425), (59, 322)),
    "aarch64": (0xC00000B7, (198, 203, 200, 201, 117, 425), (221, 281)),
}


def confine(memory: int, *, programs: bool = False) -> bool:
    """Take away what reading does not need; `memory` bounds the address space in bytes, `programs` leaves the right to become
    another program, which is confined as this one. Returns whether the kernel keeps this process off the network.
    """
    import resource

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return _refuse_calls(programs)


def allow_seconds(seconds: int) -> None:
    """The processor time from now on after which the kernel ends this process."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + seconds + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _refuse_calls(programs: bool) -> bool:
    known = _CALLS.get(platform.machine())
    if sys.platform != "linux" or known is None or sys.maxsize < 2**32:
        return False
    architecture, network, starting = known
    program = _program(architecture, network if programs else network + starting)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return False
    return bool(libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), header, zero, zero) == 0)


def _program(architecture: int, refused: tuple[int, ...]) -> bytes:
    """A filter that refuses these calls, every call of another architecture, and those in x32 guise."""
    count = len(refused)
    steps = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 0, count + 3, architecture),  # any other: to the last step
        (_LOAD, 0, 0, 0),  # the number of the call
        (_AT_LEAST, count + 1, 0, _X32),
        *((_EQUAL, count - at, 0, number) for at, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
