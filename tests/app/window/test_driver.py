"""The driver behind a window, as it reads and writes on Windows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from fixtures.pipeline import environment

from bmembed_tui.window.packets import DATA, META, Unpacker, build_packet

pytestmark = pytest.mark.posix(reason="it has Linux take the ways of both systems")
SECONDS = 60
APP = """
import errno, json, os, sys
from types import SimpleNamespace
from textual.app import App
from bmembed_tui import window_driver
from engine.core.platforms import pipes, stopping

here, gone = sys.argv[1], sys.argv[2] == "gone"
if here == "windows":
    as_windows = SimpleNamespace(platform="win32", stdin=sys.stdin)
    stopping.sys = pipes.sys = as_windows

write = os.write
def fail(descriptor, data):
    if descriptor == 1:
        raise OSError(errno.EINVAL, "Invalid argument")
    return write(descriptor, data)

class Small(App):
    def on_mount(self):
        is_own = os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev
        window_driver.send_to_window(self, type="ready", is_own=is_own)
        if gone:
            os.write = fail
            window_driver.send_to_window(self, type="lost")
            self._driver.write("lost, too")
            self.exit(return_code=7)

    def on_key(self, event):
        self.exit(return_code={"q": 1, "escape": 2}[event.key])

app = Small(driver_class=window_driver.PipeDriver)
app.run()
sys.exit(app.return_code)
"""


def run_app(
    system: str,
    *,
    is_gone: bool,
    key: bytes = b"q",
) -> tuple[int, bool]:
    """Return the exit code of the app, and whether its libraries find an empty input."""
    pipe = subprocess.PIPE
    command = [
        sys.executable,
        "-c",
        APP,
        system,
        "gone" if is_gone else "there",
    ]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment()) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        unpacker = Unpacker()
        messages = []
        while not messages:
            for kind, payload in unpacker.feed(child.stdout.read1(4096)):
                if kind == META:
                    messages.append(json.loads(payload))
        if not is_gone:
            child.stdin.write(build_packet(DATA, key))
            child.stdin.flush()
        child.stdout.read()
        # The window's end of the pipe is still open.
        code = child.wait(SECONDS)
    return code, messages[0]["is_own"]


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize(("key", "code"), [(b"q", 1), (b"\x1b", 2)])
def test_a_key_is_read_and_the_app_ends_while_the_window_is_there(
    system: str, key: bytes, code: int
) -> None:
    assert run_app(system, is_gone=False, key=key) == (code, system == "windows")


def test_on_windows_a_window_that_is_gone_is_an_invalid_argument() -> None:
    assert run_app("windows", is_gone=True) == (7, True)
