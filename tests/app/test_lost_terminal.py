"""The app ends when it is asked to, also where a lost terminal holds up all that it writes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from bmembed_tui.app import LEAVE_SECONDS

HELD_UP = """
import asyncio, queue
from bmembed_tui.app import leave_on_signals

async def paint():
    leave_on_signals(lambda: None)
    lost = queue.Queue(1)
    print("painting", flush=True)
    while True:
        lost.put("what nobody takes any more")

asyncio.run(paint())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("asked", ["SIGHUP", "SIGTERM"])
def test_a_terminal_that_takes_nothing_does_not_keep_the_app(asked: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HELD_UP], stdout=subprocess.PIPE, text=True
    ) as app:
        try:
            assert app.stdout is not None
            assert app.stdout.readline() == "painting\n"
            app.send_signal(getattr(signal, asked))
            assert app.wait(timeout=LEAVE_SECONDS + 60) == 1
        finally:
            app.kill()
