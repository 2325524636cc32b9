"""How long `bmembed-tui` takes from its start to its first painted screen, on a pseudo-terminal.

A bare start of Python and an empty Textual app are measured in the same run.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 9
EMPTY = """
from textual.app import App
from textual.widgets import Label
class Empty(App):
    def compose(self):
        yield Label("ready")
Empty().run()
"""


def seconds_until(
    command: list[str],
    mark: bytes,
    environment: dict[str, str],
) -> float:
    """Return the seconds from the start of `command` until it has written `mark`."""
    started = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(
            command[0],
            command,
            environment,
        )
    written = b""
    while mark not in written:
        if not select.select([terminal], [], [], 20)[0]:
            raise SystemExit(f"{command} painted nothing in 20 s: {written[-300:]!r}")
        written += os.read(terminal, 65536)
    seconds = time.perf_counter() - started
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    return seconds


def main() -> None:
    """Print the medians of several rounds."""
    with tempfile.TemporaryDirectory() as home:
        folders = dict.fromkeys(
            ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), home
        )
        environment = dict(
            os.environ,
            TERM="xterm-256color",
            LINES="24",
            COLUMNS="80",
            **folders,
        )
        bare = [_time_bare_python() for _ in range(ROUNDS)]
        empty = [
            seconds_until([sys.executable, "-c", EMPTY], b"ready", environment)
            for _ in range(ROUNDS)
        ]
        app = [
            seconds_until([sys.executable, "-m", "bmembed_tui"], b"Try the sample", environment)
            for _ in range(ROUNDS)
        ]
    for name, times in (
        ("python -c pass", bare),
        ("an empty Textual app", empty),
        ("bmembed-tui", app),
    ):
        print(
            f"{name:<22} median {statistics.median(times):.3f} s, worst of {ROUNDS}"
            f" {max(times):.3f} s"
        )
    ratio = statistics.median(app) / statistics.median(empty)
    print(f"bmembed-tui / empty Textual app: {ratio:.2f}")


def _time_bare_python() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
