"""What a reading process gives up before it touches a file.

These are memory, time, the network, other programs and writing.
`python -m engine.corpus.sandbox.limits MEMORY SECONDS PROGRAM ARGUMENT…` confines itself, then
becomes another program.
"""

# On Linux the kernel refuses everything but memory and time by `seccomp` and, if available, by
# `landlock`. On macOS only the limits on memory, time and file size hold, as far as the system
# knows them. On Windows the parent's job limits memory and refuses other programs, and low
# integrity keeps the user's files unchanged; the parent's clock limits time. The network and
# reading other files are not refused there.
from __future__ import annotations

import ctypes
import os
import struct
import sys
from dataclasses import dataclass

from engine.core.platforms.jobs import give_up_rights
from engine.core.platforms.landlock import give_up_writing
from engine.core.platforms.processes import forbid_files, limit_memory, limit_time
from engine.core.platforms.users import has_capabilities
from engine.corpus.sandbox.seccomp import refuse_calls

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_READ_ALL = 1 << 2  # CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE
_READ_AND_WRITE_ALL = 1 << 1


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the system has granted when a process gave up its rights.

    `files`: files cannot grow. `calls`: seccomp refuses what reading does not need. `landlock`: its
    version, 0 without. `low_integrity` and `job`: on Windows, where the job limits memory, too.
    """

    files: bool = False
    calls: bool = False
    landlock: int = 0
    low_integrity: bool = False
    job: bool = False

    def describe(self) -> tuple[str, str]:
        """Return what is refused to the process, and by what; both empty if nothing is.

        The limit on time, which holds everywhere, is left out; so is that on memory where it holds.
        """
        if self.calls and self.landlock:
            return "the network, other programs, and changes to files", "seccomp and Landlock"
        if self.calls:
            refused = "the network, other programs, and changes to files; not what is in /proc"
            return refused, "seccomp, without Landlock"
        if self.low_integrity and self.job:
            refused = "other programs, and changes to your files; not the network, nor reading"
            return f"{refused} other files of yours", "a job, and a token of low integrity"
        if self.low_integrity:
            refused = "changes to your files; not other programs, the network, nor memory"
            return refused, "a token of low integrity, without a job"
        if self.job:
            refused = "other programs; not changes to your files, nor the network"
            return refused, "a job, without low integrity"
        if self.files:
            return "growing files", "the limits of a process"
        return "", ""

    @property
    def is_complete(self) -> bool:
        """Whether a process can do nothing but read and answer."""
        return self.calls and self.landlock > 0


def confine(memory: int, *, programs: bool = False) -> Confinement:
    """Take away what reading does not need, and return what the system has done.

    `memory` bounds the address space in bytes. `programs` leaves the right to become another
    program, which is confined in the same way.
    """
    files = forbid_files()
    limit_memory(memory)
    landlock = give_up_writing(programs=programs)
    drop_rights()
    low_integrity = give_up_rights()
    calls = refuse_calls(programs=programs)
    return Confinement(files, calls, landlock, low_integrity)


def drop_rights() -> None:
    """Give up the capabilities of this thread and all that it starts, except those for reading."""
    if not has_capabilities():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", _VERSION, 0)
    # Keep the first of these that the process has.
    for kept in (_READ_ALL, _READ_AND_WRITE_ALL, 0):
        if libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)) == 0:
            return


def main(arguments: list[str]) -> None:
    """Take away what the program does not need, then become it."""
    memory, seconds, *command = arguments
    limit_time(int(seconds))
    confine(int(memory), programs=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
