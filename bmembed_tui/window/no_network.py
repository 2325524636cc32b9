"""A kernel filter that denies network access to the window's process and to its web view.

A page's policy does not cover everything that a web view can be made to connect to (WebRTC,
preconnecting). The app's process is started before, since the engine may have to reach a server on
site that writes queries; the engine's readers have a stricter filter
(engine/corpus/sandbox/seccomp.py).
"""

from __future__ import annotations

import errno

from engine.core.platforms.seccomp import (
    ALLOW,
    ARGUMENTS,
    EQUAL,
    ERRNO,
    LOAD,
    RETURN,
    install,
    machine,
)

_REFUSE = ERRNO + errno.EAFNOSUPPORT  # as if the address family were not supported
# Numbers of system calls. io_uring could create sockets past the filter.
_IO_URING_SETUP = 425
_SOCKET = {"x86_64": 41, "aarch64": 198}
# Address families.
_INET = 2
_INET6 = 10


def refuse_network() -> bool:
    """Forbid internet sockets to this thread, and to threads and programs that it starts.

    Returns whether that worked: only on Linux, and on the two usual kinds of processors.
    """
    if not machine():
        return False
    # Instructions of a BPF program: the operation, how many instructions to skip where a comparison
    # is true and where it is false, and the operand. The number of the system call is loaded.
    steps = [
        (EQUAL, 0, 1, _IO_URING_SETUP),
        (RETURN, 0, 0, _REFUSE),
        (EQUAL, 0, 4, _SOCKET[machine()]),
        (LOAD, 0, 0, ARGUMENTS),
        (EQUAL, 1, 0, _INET),
        (EQUAL, 0, 1, _INET6),
        (RETURN, 0, 0, _REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return install(steps, _REFUSE) == 0
