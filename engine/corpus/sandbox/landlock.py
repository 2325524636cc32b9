"""Landlock (Linux ≥ 5.13, where it is switched on): a process gives up, for good, to change
files and to reach other processes.

What the kernel knows of it depends on its version, and on older ones the refused calls (`seccomp`)
stand alone:

- 5.13: no file is written, made, removed or linked, no program started; other processes cannot be
  looked into or traced, neither by their memory in /proc;
- 6.2: no file is cut; 6.7: TCP; 6.12: no signal leaves the process.

Source: the kernel's Documentation/userspace-api/landlock.rst. The calls have the same numbers on
    every architecture.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress

_CREATE = 444
_RESTRICT = 446
_VERSION = 1  # a flag of the first call, which asks for the version that the kernel supports
_NO_NEW_PRIVILEGES = 38
_EXECUTE = 1 << 0
_REFER = 1 << 13
_CUT = 1 << 14
_DEVICES = 1 << 15
_WRITE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_TCP = 0b11  # listen, connect
_SOCKETS_AND_SIGNALS = 0b11  # abstract sockets; signals


def give_up_writing(*, programs: bool = False) -> int:
    """Give these rights up, in this thread and those that it starts; `programs` keeps the right
    to become another program.

    Returns the version of Landlock that keeps it so: 0 where there is none.
    """
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    version = int(
        libc.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    )
    if version < 1:
        return 0
    given_up = _given_up(version, programs=programs)
    rules = int(
        libc.syscall(
            ctypes.c_long(_CREATE), given_up, ctypes.c_size_t(len(given_up)), ctypes.c_uint32(0)
        )
    )
    if rules < 0:
        return 0
    try:
        zero = ctypes.c_ulong(0)
        if libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
            return 0
        kept = libc.syscall(ctypes.c_long(_RESTRICT), ctypes.c_int(rules), ctypes.c_uint32(0)) == 0
        return version if kept else 0
    finally:
        with suppress(OSError):
            os.close(rules)


def _given_up(version: int, *, programs: bool) -> bytes:
    """`struct landlock_ruleset_attr`, as long as this version knows it.

    No rule gives anything back.
    """
    files = _WRITE | _REMOVE_AND_MAKE | (0 if programs else _EXECUTE)
    files |= (
        (_REFER if version >= 2 else 0)
        | (_CUT if version >= 3 else 0)
        | (_DEVICES if version >= 5 else 0)
    )
    if version < 4:
        return struct.pack("Q", files)
    return struct.pack("QQ", files, _TCP) + (
        struct.pack("Q", _SOCKETS_AND_SIGNALS) if version >= 6 else b""
    )
