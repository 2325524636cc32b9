"""The kernel's refusal of the network to the window's own process, and to what the web view starts.

A policy of a page does not cover all that a web view can be made to connect to (WebRTC, preconnecting). The app's process is
started before: where the settings name a server on site that writes queries, the engine must reach it. The engine's reading
processes have a filter of their own, which forbids more (engine/corpus/sandbox/seccomp.py). This one shares no code with it: of the
engine the app imports core, settings and project only.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: load a word; jump if equal; jump if >=; return
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050061  # go on; fail with EAFNOSUPPORT, as where a family of addresses is not known
_ARCHITECTURE, _NUMBER, _FIRST_ARGUMENT = 4, 0, 16  # places in the kernel's description of a call
_X32, _IO_URING_SETUP = 0x40000000, 425  # the latter could make sockets unseen
_SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # number of the architecture, of the call
_INET, _INET6 = 2, 10


def refuse_network() -> bool:
    """From now on this thread, those that it starts, and their programs can make no socket of the internet's families.

    Returns whether that holds: on Linux alone, on the two usual kinds of processors.
    """
    known = _SOCKET.get(platform.machine())
    if sys.platform != "linux" or known is None or sys.maxsize < 2**32:
        return False
    program = _program(*known)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc, zero = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    if libc.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return False
    return bool(libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), header, zero, zero) == 0)


def _program(architecture: int, socket: int) -> bytes:
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 8, architecture),  # any other: refused
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 6, 0, _X32),
        (_EQUAL, 5, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 3, socket),  # any other: allowed
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 2, 0, _INET),
        (_EQUAL, 1, 0, _INET6),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
