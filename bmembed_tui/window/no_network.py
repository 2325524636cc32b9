"""The kernel's refusal of the network to the window's own process, and to what the web view
starts.

A policy of a page does not cover all that a web view can be made to connect to (WebRTC,
preconnecting). The app's process is started before: where the settings name a server on site that
writes queries, the engine must reach it. The engine's reading processes have a filter of their own,
which forbids more (engine/corpus/sandbox/seccomp.py).
"""

from __future__ import annotations

import errno

from engine.core.seccomp import ALLOW, ARGUMENTS, EQUAL, ERRNO, LOAD, RETURN, install, machine

_REFUSE = ERRNO + errno.EAFNOSUPPORT  # as where a family of addresses is not known
_IO_URING_SETUP = 425  # it could make sockets unseen
_SOCKET = {"x86_64": 41, "aarch64": 198}
_INET = 2
_INET6 = 10


def refuse_network() -> bool:
    """From now on this thread, those that it starts, and their programs can make no socket of
    the internet's families.

    Returns whether that holds: on Linux alone, on the two usual kinds of processors.
    """
    if not machine():
        return False
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
