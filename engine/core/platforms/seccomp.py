"""Filters of system calls (Linux, seccomp(2)) that a process installs for its whole tree."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from collections.abc import Iterable

LOAD = 0x20
EQUAL = 0x15
AT_LEAST = 0x35
ANY_OF = 0x45
RETURN = 0x06
"""Instructions: load a word; jump if equal, if >=, if a bit is set; return."""
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
"""Values to return: allow the call; fail it with the error whose number is added."""
ARGUMENTS = 16  # Offset of the arguments, 8 bytes each, in a filter's input.
_ARCHITECTURE = 4  # Its offset there, and that of the call's number.
_NUMBER = 0
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_SET_FILTER = 1  # SECCOMP_SET_MODE_FILTER
_X32 = 0x40000000  # Is added to the numbers of calls of the ABI x32.
# The numbers of the architecture and of the call seccomp.
_MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}

Step = tuple[int, int, int, int]
"""An instruction of a filter: its code, how many to jump over if its test holds and if not, and
the value that it takes."""


def machine() -> str:
    """Return `x86_64` or `aarch64`, whose system calls are known; empty on other systems."""
    is_linux64 = sys.platform == "linux" and sys.maxsize > 2**32
    if is_linux64 and platform.machine() in _MACHINES:
        return platform.machine()
    return ""


def install(
    steps: Iterable[Step],
    refuse: int,
    flags: int = 0,
) -> int:
    """Install a filter on this thread; return the result of seccomp(2), below 0 on failure.

    `steps`: begin with the call's number loaded; calls of another architecture or ABI (x32) never
    reach them. `refuse`: the value that such calls return. `flags`: those of seccomp(2). Requires a
    `machine`.
    """
    architecture, seccomp = _MACHINES[machine()]
    program = [
        (LOAD, 0, 0, _ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, refuse),
        (LOAD, 0, 0, _NUMBER),
        (AT_LEAST, 0, 1, _X32),
        (RETURN, 0, 0, refuse),
        *steps,
    ]
    instructions = b"".join(struct.pack("HBBI", *step) for step in program)
    code = ctypes.create_string_buffer(instructions, 8 * len(program))
    header = struct.pack(
        "HxxxxxxP",
        len(program),
        ctypes.addressof(code),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return -1
    return int(
        libc.syscall(
            ctypes.c_long(seccomp), ctypes.c_ulong(_SET_FILTER), ctypes.c_ulong(flags), header
        )
    )
