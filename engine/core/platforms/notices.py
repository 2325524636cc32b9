"""Descriptors that pass between processes, and the kernel's notices of system calls (Linux)."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

if sys.platform != "win32":
    import fcntl
    import select

# Commands of ioctl: SECCOMP_IOCTL_NOTIF_RECV, …_SEND and …_SET_FLAGS, and the flag.
_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_SET_FLAGS = 0x40082104
_SAME_CORE = 1  # SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP


def send_descriptor(channel: socket.socket, descriptor: int) -> None:
    """Send a descriptor to the process at the other end of a unix socket."""
    if sys.platform != "win32":
        socket.send_fds(
            channel,
            [b"."],
            [descriptor],
        )


def receive_descriptor(channel: socket.socket) -> int | None:
    """Return a descriptor that was sent; None if the other end was closed without one."""
    if sys.platform != "win32":
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if descriptors:
            return descriptors[0]
    return None


def stay_on_one_core(listener: int) -> None:
    """Let the kernel run watcher and caller on one core, which is faster (Linux 6.6 or later)."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.ioctl(listener, _SET_FLAGS, _SAME_CORE)


def wait_for_notice(listener: int) -> bool:
    """Wait for a notice; return False if the last process under the filter has ended."""
    if sys.platform != "win32":
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        [(_, events)] = poll.poll()
        return bool(events & select.POLLIN or not events & select.POLLHUP)
    return False


def receive_notice(listener: int, notice: bytearray) -> None:
    """Fill `notice` with the next one.

    Raises OSError if the calling process was killed meanwhile.
    """
    if sys.platform != "win32":
        fcntl.ioctl(
            listener,
            _RECEIVE,
            notice,
            True,
        )


def answer_notice(listener: int, answer: bytes) -> None:
    """Answer a notice.

    Raises OSError if the calling process was killed meanwhile.
    """
    if sys.platform != "win32":
        fcntl.ioctl(listener, _SEND, answer)
