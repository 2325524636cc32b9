"""Filters of system calls (Linux, seccomp(2)): programs of BPF that a process puts on itself,
and keeps with all that it starts.
"""

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
"""Load a word; jump if equal, if >=, if a bit is set; return."""
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
"""To return: go on; fail with the error whose number is added."""
ARGUMENTS = 16  # where they begin in what a filter is given, 8 bytes each
_ARCHITECTURE = 4
_NUMBER = 0
_NO_NEW_PRIVILEGES = 38
_SET_FILTER = 1
_X32 = 0x40000000
# number of the architecture, of the call seccomp
_MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}

Step = tuple[int, int, int, int]


def machine() -> str:
    """`x86_64` or `aarch64`, whose calls are known; empty on others, and on other systems."""
    known = sys.platform == "linux" and sys.maxsize > 2**32 and platform.machine() in _MACHINES
    if known:
        return platform.machine()
    return ""


def install(steps: Iterable[Step], refuse: int, flags: int = 0) -> int:
    """Put a filter on this thread; what seccomp(2) returns, below 0 where it refuses.

    `steps` begin with the call's number loaded.

    Calls of another architecture, and those in x32 guise, come to `refuse`, all of them. `flags`:
    those of seccomp(2). Only where there is a `machine`.
    """
    architecture, seccomp = _MACHINES[machine()]
    whole = [
        (LOAD, 0, 0, _ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, refuse),
        (LOAD, 0, 0, _NUMBER),
        (AT_LEAST, 0, 1, _X32),
        (RETURN, 0, 0, refuse),
        *steps,
    ]
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *step) for step in whole), 8 * len(whole)
    )
    header = struct.pack("HxxxxxxP", len(whole), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return -1
    return int(
        libc.syscall(
            ctypes.c_long(seccomp), ctypes.c_ulong(_SET_FILTER), ctypes.c_ulong(flags), header
        )
    )
