"""The end of a console window on Windows, with stand-ins for the calls of its library."""

from __future__ import annotations

import ctypes
import importlib.util
import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from engine.core.platforms import stopping


@pytest.mark.parametrize(
    ("event", "is_handled"), [(0, False), (1, False), (2, True), (5, False), (6, False)]
)
def test_only_the_closing_of_the_window_is_a_lost_terminal(
    event: int, monkeypatch: pytest.MonkeyPatch, *, is_handled: bool
) -> None:
    """Of logging off (5) and shutting down (6), Windows tells no program that has windows."""
    handlers: list[Callable[[int], bool]] = []
    raised: list[int] = []

    def set_handler(handler: Callable[[int], bool], _is_added: int) -> int:
        handlers.append(handler)
        return 1

    library = SimpleNamespace(kernel32=SimpleNamespace(SetConsoleCtrlHandler=set_handler))
    monkeypatch.setattr(
        ctypes,
        "windll",
        library,
        raising=False,
    )
    monkeypatch.setattr(
        ctypes,
        "WINFUNCTYPE",
        lambda *_: lambda call: call,
        raising=False,
    )
    monkeypatch.setattr(
        signal,
        "SIGBREAK",
        21,
        raising=False,
    )
    monkeypatch.setattr(
        signal,
        "raise_signal",
        raised.append,
    )
    monkeypatch.setattr(sys, "platform", "win32")
    assert stopping.__file__ is not None
    spec = importlib.util.spec_from_file_location("stopping_of_windows", stopping.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CLOSING_SECONDS", 0.0)
    module.notice_closing()
    (handler,) = handlers
    assert handler(event) is is_handled
    assert raised == [21] * is_handled
