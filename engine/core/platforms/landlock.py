"""Landlock (Linux ≥ 5.13, if enabled): a process gives up its rights to change files for good.

It also gives up reaching other processes. Source: Documentation/userspace-api/landlock.rst of the
kernel.
"""

# What the kernel enforces depends on its version:
# - 5.13: no file is written, created, removed or linked, and no program is started; other processes
#   cannot be inspected or traced, nor their memory in /proc;
# - 6.2: no file is truncated; 6.7: no TCP; 6.12: no signal leaves the process.
# On older kernels only the refused calls (`seccomp`) protect. The calls of Landlock have the same
# numbers on every architecture.
from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress

_CREATE = 444
_RESTRICT = 446
# Flag of the first call that asks for the version supported by the kernel.
_VERSION = 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE = 1 << 0
_REFER = 1 << 13
_CUT = 1 << 14
_DEVICES = 1 << 15
_WRITE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_TCP = 0b11  # Bits for listen and connect.
# Abstract sockets and signals.
_SOCKETS_AND_SIGNALS = 0b11


def give_up_writing(*, programs: bool = False) -> int:
    """Give up these rights in this thread and all that it starts, and return Landlock's version.

    The version is 0 if Landlock is not available. `programs` keeps the right to become another
    program.
    """
    version = find_version()
    if version < 1:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
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


def find_version() -> int:
    """Return the version of Landlock that the kernel supports; below 1 if it does not."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = ctypes.c_size_t(0)
    return int(libc.syscall(ctypes.c_long(_CREATE), None, nothing, ctypes.c_uint32(_VERSION)))


def _given_up(version: int, *, programs: bool) -> bytes:
    """Return `struct landlock_ruleset_attr`, as long as this version knows it.

    No rule grants anything back.
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
