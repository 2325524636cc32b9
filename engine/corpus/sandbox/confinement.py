"""What a reading process gives up before it touches a file.

It gives up memory and time beyond its limits, the network, other programs and writing.
`python -m engine.corpus.sandbox.confinement MEMORY SECONDS PROGRAM ARGUMENT…` confines itself, then
becomes another program.
"""

# On Linux the kernel refuses everything but memory and time by `seccomp` and, if available, by
# `landlock`. On macOS only the limits on memory, time and file size hold, as far as the system
# knows them. On Windows the parent's job limits memory and refuses other programs, its clock limits
# time, and the process has a token that opens nothing (`core.platforms.lockdown`). Where such a
# process does not start, another lowers itself to low integrity, which refuses changes to files.
from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.platforms.files import is_writable
from engine.core.platforms.landlock import give_up_writing
from engine.core.platforms.lockdown import can_lock_down
from engine.core.platforms.processes import forbid_files, limit_memory, limit_time
from engine.core.platforms.tokens import give_up_opening, give_up_rights
from engine.core.platforms.users import has_capabilities
from engine.corpus.sandbox.seccomp import refuse_calls

_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_READ_ALL = 1 << 2  # CAP_DAC_READ_SEARCH
_READ_AND_WRITE_ALL = 1 << 1  # CAP_DAC_OVERRIDE


@dataclass(frozen=True, slots=True)
class Confinement:
    """Which of the restrictions that a process asked for the system has put on it."""

    # Files cannot grow.
    files: bool = False
    # seccomp refuses the system calls that reading does not need.
    calls: bool = False
    # The version of Landlock, 0 without it.
    landlock: int = 0
    # On Windows: the process has a token of low integrity, and a restricted one.
    low_integrity: bool = False
    restricted: bool = False
    # On Windows: a job limits memory and refuses other programs.
    job: bool = False
    # On Windows: an attempt to open a file, to create a file, or to open a socket failed.
    refuses_reading: bool = False
    refuses_writing: bool = False
    refuses_network: bool = False

    def describe(self) -> tuple[str, str]:
        """Return what is refused to the process, and by what; both empty if nothing is.

        The limits on time and memory are left out.
        """
        if self.calls and self.landlock:
            return "the network, other programs, and changes to files", "seccomp and Landlock"
        if self.calls:
            refused = "the network, other programs, and changes to files; not what is in /proc"
            return refused, "seccomp, without Landlock"
        if self.low_integrity or self.restricted or self.job:
            return self._describe_on_windows()
        if self.files:
            return "growing files", "the limits of a process"
        return "", ""

    def _describe_on_windows(self) -> tuple[str, str]:
        """Return what Windows refuses, and by what; both empty if nothing is."""
        is_refused = {
            "the network": self.refuses_network,
            "other programs": self.job,
            "changes to your files": self.refuses_writing,
            "reading other files of yours": self.refuses_reading,
        }
        refused = [action for action, holds in is_refused.items() if holds]
        not_refused = [action for action, holds in is_refused.items() if not holds]
        if not refused:
            return "", ""
        means = []
        if self.job:
            means.append("a job")
        if self.restricted:
            means.append("a restricted token of low integrity")
        elif self.low_integrity:
            means.append("a token of low integrity")
        text = ", ".join(refused)
        if not_refused:
            text += f"; not {', '.join(not_refused)}"
        return text, " and ".join(means)

    @property
    def is_complete(self) -> bool:
        """Whether a process can do nothing but read and answer."""
        if self.job and self.refuses_reading and self.refuses_writing and self.refuses_network:
            return True
        return self.calls and self.landlock > 0


def confine(
    memory: int,
    *,
    programs: bool = False,
    opening: bool = True,
) -> Confinement:
    """Confine this process to what reading needs, and return what the system has done.

    `memory`: the maximum address space in bytes. `programs`: keep the right to become another
    program, which is then confined in the same way. `opening`: keep the right to open files. A
    process that was locked down gives it up, and must have loaded all that it needs.
    """
    files = forbid_files()
    limit_memory(memory)
    landlock = give_up_writing(programs=programs)
    drop_rights()
    low_integrity = give_up_rights()
    calls = refuse_calls(programs=programs)
    granted = Confinement(
        files,
        calls,
        landlock,
        low_integrity,
    )
    if not opening:
        give_up_opening()
    if can_lock_down():
        return _try_rights(granted)
    return granted


def _try_rights(granted: Confinement) -> Confinement:
    """Return `granted` with what Windows refuses, which can only be found out by trying."""
    import socket

    return replace(
        granted,
        refuses_reading=_is_refused(lambda: Path(__file__).open("rb").close()),
        refuses_writing=not is_writable(Path(os.environ.get("TEMP", os.curdir))),
        refuses_network=_is_refused(lambda: socket.socket().close()),
    )


def _is_refused(attempt: Callable[[], object]) -> bool:
    """Return whether an attempt fails with an OSError."""
    try:
        attempt()
    except OSError:
        return True
    return False


def drop_rights() -> None:
    """Give up the capabilities of this thread and all that it starts, except those for reading."""
    if not has_capabilities():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    this_thread = 0
    header = struct.pack("Ii", _CAPABILITY_VERSION, this_thread)
    # Keep the first of these that the process has: the others cannot be set.
    for capabilities in (_READ_ALL, _READ_AND_WRITE_ALL, 0):
        # Effective, permitted and inheritable capabilities, of 32 bits; then the higher 32 bits.
        if libc.capset(header, struct.pack("6I", capabilities, capabilities, 0, 0, 0, 0)) == 0:
            return


def main(arguments: list[str]) -> None:
    """Confine this process to what reading needs, then become the program in `arguments`."""
    memory, seconds, *command = arguments
    limit_time(int(seconds))
    confine(int(memory), programs=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
