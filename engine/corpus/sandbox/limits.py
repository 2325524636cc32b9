"""What a reading process gives up before it touches a file.

These are memory, time, the network, other programs and writing.
`python -m engine.corpus.sandbox.limits MEMORY SECONDS PROGRAM ARGUMENT…` confines itself, then
becomes another program.
"""

# On Linux the kernel refuses everything but memory and time by `seccomp` and, if available, by
# `landlock`. On macOS only the limits on memory, time and file size hold, as far as the system
# knows them. On Windows the parent's job limits memory and refuses other programs, and low
# integrity keeps the user's files unchanged; the network is not refused there.
from __future__ import annotations

import ctypes
import os
import struct
import sys

from engine.core.platforms import SYSTEM
from engine.core.platforms.jobs import give_up_rights
from engine.core.platforms.landlock import find_version, give_up_writing
from engine.core.platforms.processes import forbid_files, limit_memory, limit_time
from engine.core.platforms.seccomp import machine
from engine.corpus.sandbox.seccomp import refuse_calls

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_READ_ALL = 1 << 2  # CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE
_READ_AND_WRITE_ALL = 1 << 1


def confine(memory: int, *, programs: bool = False) -> bool:
    """Take away what reading does not need, and return whether the kernel blocks the network.

    `memory` bounds the address space in bytes. `programs` leaves the right to become another
    program, which is confined in the same way.
    """
    forbid_files()
    limit_memory(memory)
    give_up_writing(programs=programs)
    drop_rights()
    give_up_rights()
    return refuse_calls(programs=programs)


def drop_rights() -> None:
    """Give up the capabilities of this thread and all that it starts, except those for reading."""
    if SYSTEM != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", _VERSION, 0)
    # Keep the first of these that the process has.
    for kept in (_READ_ALL, _READ_AND_WRITE_ALL, 0):
        if libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)) == 0:
            return


def describe_confinement() -> tuple[str, str, bool]:
    """Return what this system refuses to reading processes, by what, and whether that is all.

    The limits on memory and time, which hold everywhere, are left out.
    """
    if SYSTEM == "windows":
        refused = "other programs, and changes to your files; the network is not refused"
        return refused, "a job, and a token of low integrity", False
    if SYSTEM == "linux" and machine():
        refused = "the network, other programs, and changes to files"
        if find_version() >= 1:
            return refused, "seccomp and Landlock", True
        return f"{refused}; not what is in /proc", "seccomp, without Landlock", False
    return "growing files", "the limits of a process", False


def main(arguments: list[str]) -> None:
    """Take away what the program does not need, then become it."""
    memory, seconds, *command = arguments
    limit_time(int(seconds))
    confine(int(memory), programs=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
