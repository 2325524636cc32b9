"""A filter of system calls (Linux, seccomp): no network, no other process, no change to files.

Files can be opened only for reading. New threads are allowed, and signals to oneself, with which a
crash ends.
"""

# Calls that create, change, move or remove files or their attributes, that reach other processes or
# what they share, or that start programs or processes fail with EPERM; calls newer than this list
# are unknown to the process. A filter cannot see what a path names, so Landlock (`landlock`) keeps
# the memory of other processes in /proc closed.
from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Sequence
from typing import NamedTuple

from engine.core.assets import asset_path
from engine.core.platforms.seccomp import (
    ALLOW,
    ANY_OF,
    ARGUMENTS,
    AT_LEAST,
    EQUAL,
    ERRNO,
    LOAD,
    RETURN,
    Step,
    install,
    machine,
)

# Answers to a call: it fails with this error.
_REFUSE = ERRNO + errno.EPERM
_EXISTS = ERRNO + errno.EEXIST
_UNKNOWN = ERRNO + errno.ENOSYS
# Flags of a call that opens a file for more than reading.
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_THREAD = 0x10000  # CLONE_THREAD
# Bits of a socket's type that are not set for SOCK_STREAM (1).
_NO_STREAM = 0xE
_OF_ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC
# Calls from this number on are new, and have the same numbers on all architectures. Those that the
# table does not allow fail as if the kernel did not know them.
_FIRST_NEW_CALL = 424


class _Calls(NamedTuple):
    """The numbers of system calls on an architecture, by name.

    The sections are those of the table `assets/sandbox/system_calls.toml`, which explains them.
    """

    refused: dict[str, int]
    starting: dict[str, int]
    folders: dict[str, int]
    opening: dict[str, int]
    to_itself: dict[str, int]
    examined: dict[str, int]
    allowed: dict[str, int]


# The position, from 0, of the argument that holds the flags of a call that opens files.
_FLAGS_ARGUMENT = {"open": 1, "openat": 2}
# Commands of fcntl that have signals sent, or lock the project or its database, for which other
# programs wait.
_REFUSED_FCNTL = (
    8,  # F_SETOWN
    10,  # F_SETSIG
    15,  # F_SETOWN_EX
    1024,  # F_SETLEASE
    1026,  # F_NOTIFY
    6,  # F_SETLK
    7,  # F_SETLKW
    37,  # F_OFD_SETLK
    38,  # F_OFD_SETLKW
)
# Commands of ioctl: ask whether it is a terminal and its size, close on exec, ask how much can be
# read, and do not block.
_ALLOWED_IOCTL = (
    0x5401,  # TCGETS
    0x5413,  # TIOCGWINSZ
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
)


def refuse_calls(*, programs: bool) -> bool:
    """Put the filter on this process, and return whether it is in place.

    `programs`: keep the right to become another program.
    """
    architecture = machine()
    if not architecture:
        return False
    steps = _build_filter(read_calls(architecture), programs=programs)
    return install(steps, _REFUSE, _OF_ALL_THREADS) == 0


def read_calls(architecture: str) -> _Calls:
    """Return the system calls that the filter knows, with their numbers on an architecture."""
    table = tomllib.loads(asset_path("sandbox/system_calls.toml").read_text("utf-8"))
    sections: dict[str, dict[str, int]] = {"allowed": table.pop("allowed")}
    for section, calls in table.items():
        sections[section] = {
            name: numbers[architecture]
            for name, numbers in calls.items()
            if architecture in numbers
        }
    return _Calls(**sections)


def _build_filter(calls: _Calls, *, programs: bool) -> list[Step]:
    """Return the steps of the filter, which end with an answer for every call."""
    examined = calls.examined
    steps: list[Step] = [
        *_refuse_unless(examined["clone"], 0, (ANY_OF, 1, 0, _THREAD)),
        *_refuse_unless(examined["tgkill"], 0, (EQUAL, 1, 0, os.getpid())),
        # Libraries wake their threads with streams; datagrams could be sent to any other socket of
        # this machine.
        *_refuse_unless(examined["socketpair"], 1, (ANY_OF, 0, 1, _NO_STREAM)),
    ]
    for name, number in calls.opening.items():
        steps += _refuse_unless(
            number,
            _FLAGS_ARGUMENT[name],
            (ANY_OF, 0, 1, _CHANGES),
        )
    for number in calls.to_itself.values():
        steps += _refuse_unless(
            number,
            0,
            (EQUAL, 1, 0, 0),
        )
    steps += _answer_by_command(
        examined["fcntl"],
        _REFUSED_FCNTL,
        named=_REFUSE,
        other=ALLOW,
    )
    steps += _answer_by_command(
        examined["ioctl"],
        _ALLOWED_IOCTL,
        named=ALLOW,
        other=_REFUSE,
    )
    answers = dict.fromkeys(calls.refused.values(), _REFUSE)
    if not programs:
        answers |= dict.fromkeys(calls.starting.values(), _REFUSE)
    answers |= dict.fromkeys(calls.folders.values(), _EXISTS)
    answers |= dict.fromkeys(calls.allowed.values(), ALLOW)
    for number, answer in answers.items():
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, answer)]
    return [
        *steps,
        (AT_LEAST, 0, 1, _FIRST_NEW_CALL),
        (RETURN, 0, 0, _UNKNOWN),
        (RETURN, 0, 0, ALLOW),
    ]


def _refuse_unless(
    number: int,
    argument: int,
    test: Step,
) -> Sequence[Step]:
    """Return steps that refuse a call unless `test` of its argument jumps over the refusal.

    `number`: that of the call. `argument`: its position, from 0.
    """
    return [
        # For another call, jump over these steps to those of the next call.
        (EQUAL, 0, 4, number),
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),
        test,
        (RETURN, 0, 0, _REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]


def _answer_by_command(
    number: int, commands: Sequence[int], *, named: int, other: int
) -> Sequence[Step]:
    """Return steps that answer a call by its second argument, the command.

    `named`: the answer to one of `commands`. `other`: the answer to any other.
    """
    # A test that holds jumps over the tests after it and over the answer `other`, to the last step.
    tests = [
        (EQUAL, len(commands) - position, 0, command) for position, command in enumerate(commands)
    ]
    return [
        # For another call, jump over these steps to those of the next call.
        (EQUAL, 0, len(commands) + 3, number),
        (LOAD, 0, 0, ARGUMENTS + 8),
        *tests,
        (RETURN, 0, 0, other),
        (RETURN, 0, 0, named),
    ]
