"""What the superuser may do beyond others (Linux, capabilities): a process of root's keeps the right to read, and no other."""

from __future__ import annotations

import ctypes
import struct
import sys

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_READ_ALL, _READ_AND_WRITE_ALL = 1 << 2, 1 << 1  # CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE


def drop_rights() -> None:
    """Give up every capability of this thread, and of those that it starts, but for those that reading may need."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", _VERSION, 0)
    for kept in (_READ_ALL, _READ_AND_WRITE_ALL, 0):  # the first that this process has
        if libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)) == 0:
            return
