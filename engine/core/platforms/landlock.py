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

# Numbers of the calls landlock_create_ruleset and landlock_restrict_self.
_CREATE_RULESET = 444
_RESTRICT_SELF = 446
# Flag of the first call that asks for the version supported by the kernel.
_VERSION = 1
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
# Rights to files.
_EXECUTE = 1 << 0
_WRITE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_CONTROL_DEVICES = 1 << 15
# Rights to listen and connect.
_TCP = 0b11
# Scopes of abstract sockets and signals.
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
    rights = _pack_rights(version, programs=programs)
    size = ctypes.c_size_t(len(rights))
    no_flags = ctypes.c_uint32(0)
    ruleset = int(libc.syscall(ctypes.c_long(_CREATE_RULESET), rights, size, no_flags))
    if ruleset < 0:
        return 0
    try:
        zero = ctypes.c_ulong(0)
        if libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
            return 0
        if libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), no_flags) != 0:
            return 0
        return version
    finally:
        with suppress(OSError):
            os.close(ruleset)


def find_version() -> int:
    """Return the version of Landlock that the kernel supports; below 1 if it does not."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = ctypes.c_size_t(0)
    ask_version = ctypes.c_uint32(_VERSION)
    return int(libc.syscall(ctypes.c_long(_CREATE_RULESET), None, nothing, ask_version))


def _pack_rights(version: int, *, programs: bool) -> bytes:
    """Return the rights to give up, as much of `struct landlock_ruleset_attr` as the kernel knows.

    No rule grants anything back. `programs`: keep the right to become another program.
    """
    files = _WRITE | _REMOVE_AND_MAKE
    if not programs:
        files |= _EXECUTE
    if version >= 2:
        files |= _REFER
    if version >= 3:
        files |= _TRUNCATE
    if version >= 5:
        files |= _CONTROL_DEVICES
    if version < 4:
        return struct.pack("Q", files)
    if version < 6:
        return struct.pack("QQ", files, _TCP)
    return struct.pack(
        "QQQ",
        files,
        _TCP,
        _SOCKETS_AND_SIGNALS,
    )
