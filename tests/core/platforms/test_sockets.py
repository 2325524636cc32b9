from __future__ import annotations

import errno
import sys
from types import SimpleNamespace

import pytest

from engine.core.platforms import sockets


@pytest.mark.posix(reason="Windows' words are a stand-in's")
@pytest.mark.parametrize(
    ("number", "of_windows", "elsewhere", "on_windows"),
    [
        (errno.EINVAL, 1225, "invalid argument", "error 1225"),
        (10_061, None, "unknown error 10061", "error 10061"),
        (errno.ENOSPC, None, "no space left on device", "no space left on device"),
    ],
)
def test_a_connection_that_failed_is_described_by_the_system(
    number: int,
    of_windows: int | None,
    elsewhere: str,
    on_windows: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = OSError(number, "Connect call failed ('127.0.0.1', 80)")
    vars(error)["winerror"] = of_windows
    words = SimpleNamespace(FormatError=lambda number: f"Error {number}.\r\n")
    monkeypatch.setattr(sys, "platform", "linux")
    assert sockets.describe_socket_error(error) == elsewhere
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(
        sockets,
        "ctypes",
        words,
        raising=False,
    )
    assert sockets.describe_socket_error(error) == on_windows


def test_a_refused_connection_says_so_on_every_system() -> None:
    error = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
    assert "refused" in sockets.describe_socket_error(error)
