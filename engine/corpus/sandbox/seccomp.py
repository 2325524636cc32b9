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
from collections.abc import Sequence
from typing import NamedTuple

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

_REFUSE = ERRNO + errno.EPERM
_EXISTS = ERRNO + errno.EEXIST
_UNKNOWN = ERRNO + errno.ENOSYS
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_THREAD = 0x10000  # CLONE_THREAD
# Of the bits of a socket's type; SOCK_STREAM is 1.
_NO_STREAM = 0xE
# Flag of seccomp(2).
_OF_ALL_THREADS = 1


class _Calls(NamedTuple):
    """Numbers of system calls on an architecture.

    `opening` maps a call to the argument that holds its flags. `folders` are calls that create
    folders: libraries that want a folder call them even if it exists, and accept only EEXIST as a
    yes. `to_itself` are calls whose first argument is a process, 0 for the caller. `socketpair` is
    allowed only for streams, with which libraries wake their threads; datagrams could be sent to
    any other socket of this machine.
    """

    refused: tuple[int, ...]
    folders: tuple[int, ...]
    starting: tuple[int, ...]
    opening: dict[int, int]
    clone: int
    to_own_thread: int
    to_itself: tuple[int, ...]
    fcntl: int
    ioctl: int
    socketpair: int


_CALLS = {
    "x86_64": _Calls(
        (
            41,
            42,
            49,
            50,
            101,  # socket, connect, bind, listen, ptrace
            85,
            82,
            264,
            316,
            87,
            263,
            84,
            86,
            265,
            88,
            266,
            133,
            259,  # creat, rename …, unlink …, link …, mknod …
            76,
            77,
            285,
            90,
            91,
            268,
            92,
            93,
            94,
            260,
            132,
            235,
            280,
            261,  # truncate …, chmod …, chown …, utime …
            188,
            189,
            190,
            197,
            198,
            199,
            304,  # setxattr …, removexattr …, open_by_handle_at
            62,
            200,
            129,
            297,
            310,
            311,
            312,
            256,
            279,  # kill …, process_vm_…, kcmp, migrate_pages, move_pages
            141,
            251,
            248,
            249,
            250,
            240,
            241,
            244,  # setpriority, ioprio_set, add_key …, mq_open …
            29,
            30,
            31,
            64,
            65,
            66,
            220,
            68,
            69,
            70,
            71,  # shmget …, semget …, msgget …
            57,
            58,
            272,
            308,
            165,
            166,
            161,
            155,  # fork, vfork, unshare, setns, mount, umount2, chroot, pivot_root
            321,
            298,
            323,
            300,
            73,  # bpf, perf_event_open, userfaultfd, fanotify_init, flock
        ),
        (83, 258),
        (59, 322),
        {2: 1, 257: 2},
        56,
        234,
        (302, 142, 144, 203, 314),
        72,
        16,
        53,  # prlimit64, sched_set…
    ),
    "aarch64": _Calls(
        (
            198,
            203,
            200,
            201,
            117,
            38,
            276,
            35,
            37,
            36,
            33,
            45,
            46,
            47,
            52,
            53,
            54,
            55,
            88,
            5,
            6,
            7,
            14,
            15,
            16,
            265,
            129,
            130,
            138,
            240,
            270,
            271,
            272,
            238,
            239,
            140,
            30,
            217,
            218,
            219,
            180,
            181,
            184,
            194,
            195,
            196,
            190,
            191,
            192,
            193,
            186,
            187,
            188,
            189,
            97,
            268,
            40,
            39,
            51,
            41,
            280,
            241,
            282,
            262,
            32,
        ),
        (34,),
        (221, 281),
        {56: 2},
        220,
        131,
        (261, 118, 119, 122, 274),
        25,
        29,
        199,
    ),
}
# From here on all architectures have the same numbers. Calls not named below are unknown to the
# process: clone3, whose flags lie where a filter cannot look (libraries then use clone), io_uring,
# openat2, pidfd_…, fchmodat2, setxattrat, …
_SAME_EVERYWHERE = 424
# close_range, faccessat2, epoll_pwait2, landlock_…, futex_waitv, cachestat, map_shadow_stack,
# futex_…, mseal
_HARMLESS = (436, 439, 441, 444, 445, 446, 449, 451, 453, 454, 455, 456, 462)
# Commands of fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE and F_NOTIFY have signals sent.
# F_SETLK, F_SETLKW and those of open files would lock the project or its database, for which other
# programs wait.
_REACHING = (8, 10, 15, 1024, 1026, 6, 7, 37, 38)
# Commands of ioctl: ask whether it is a terminal and its size, close on exec, ask how much can be
# read, and do not block.
_ASKING = (0x5401, 0x5413, 0x5450, 0x5451, 0x541B, 0x5421)


def refuse_calls(*, programs: bool) -> bool:
    """Put the filter on this process, and return whether it is in place.

    `programs` leaves the right to become another program.
    """
    known = _CALLS.get(machine())
    return (
        known is not None
        and install(_steps(known, programs=programs), _REFUSE, _OF_ALL_THREADS) == 0
    )


def _steps(calls: _Calls, *, programs: bool) -> list[Step]:
    if programs:
        refused = calls.refused
    else:
        refused = calls.refused + calls.starting
    steps: list[Step] = [
        *_unless(calls.clone, 0, (ANY_OF, 1, 0, _THREAD)),
        *_unless(calls.to_own_thread, 0, (EQUAL, 1, 0, os.getpid())),
        *_unless(calls.socketpair, 1, (ANY_OF, 0, 1, _NO_STREAM)),
    ]
    for number, argument in calls.opening.items():
        steps += _unless(number, argument, (ANY_OF, 0, 1, _CHANGES))
    for number in calls.to_itself:
        steps += _unless(number, 0, (EQUAL, 1, 0, 0))
    steps += _by_what(calls.fcntl, _REACHING, named=_REFUSE, other=ALLOW)
    steps += _by_what(calls.ioctl, _ASKING, named=ALLOW, other=_REFUSE)
    for number in (*refused, *calls.folders):
        steps += [
            (EQUAL, 0, 1, number),
            (RETURN, 0, 0, _EXISTS if number in calls.folders else _REFUSE),
        ]
    for number in _HARMLESS:
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    steps += [(AT_LEAST, 0, 1, _SAME_EVERYWHERE), (RETURN, 0, 0, _UNKNOWN), (RETURN, 0, 0, ALLOW)]
    return steps


def _unless(number: int, argument: int, test: Step) -> Sequence[Step]:
    """Return steps that refuse a call unless `test` of its argument jumps over the refusal."""
    return [
        (EQUAL, 0, 4, number),
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),
        test,
        (RETURN, 0, 0, _REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]


def _by_what(number: int, commands: Sequence[int], *, named: int, other: int) -> Sequence[Step]:
    """Return steps that answer a call by its second argument, the command."""
    tests = [(EQUAL, len(commands) - at, 0, command) for at, command in enumerate(commands)]
    return [
        (EQUAL, 0, len(commands) + 3, number),
        (LOAD, 0, 0, ARGUMENTS + 8),
        *tests,
        (RETURN, 0, 0, other),
        (RETURN, 0, 0, named),
    ]
