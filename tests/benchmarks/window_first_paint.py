"""How long `bmembed-tui --window` takes to its first painted screen, beside an empty window.

The empty window is one of the same library. Seconds are on the clock, and of the processors over
all of its processes, which a busy machine changes less. Needs Xvfb, Pillow and the extra `desktop`;
what is missing is printed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROUNDS = 5
EMPTY_WINDOW = (
    "import webview; webview.create_window('e', html='<body style=\"background:#5fa8d3\">');"
    " webview.start(gui='qt')"
)
COLOUR = (0x5F, 0xA8, 0xD3)  # of a chosen line in the app


class Seconds(NamedTuple):
    """On the clock, and of the processors."""

    clock: float
    processor: float


def measure_first_paint(command: list[str], environment: dict[str, str]) -> Seconds:
    """Start a command, and wait until the colour of a chosen line is on the display."""
    import numpy as np
    import psutil
    from PIL import ImageGrab

    started = time.perf_counter()
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while time.perf_counter() - started < 60:
            picture = ImageGrab.grab(xdisplay=environment["DISPLAY"]).convert("RGB")
            pixels = np.asarray(picture).astype(int)  # (rows, columns, 3)
            has_colour = np.abs(pixels - np.array(COLOUR)).max(axis=2) < 4
            if has_colour.mean() > 0.01:
                seconds = time.perf_counter() - started
                main = psutil.Process(child.pid)
                processor_seconds = 0.0
                for process in (main, *main.children(recursive=True)):
                    times = process.cpu_times()
                    processor_seconds += times.user + times.system
                return Seconds(seconds, processor_seconds)
            time.sleep(0.1)  # looking costs time of its own
        raise SystemExit(f"{command} painted nothing in 60 s")
    finally:
        child.terminate()
        child.wait()
        time.sleep(1.0)


def main() -> None:
    """Print the medians."""
    missing = [
        name
        for name in ("webview", "PySide6", "textual_serve", "PIL")
        if importlib.util.find_spec(name) is None
    ]
    if not shutil.which("Xvfb"):
        missing.append("Xvfb")
    if missing:
        print(f"window_first_paint: not installed here: {', '.join(missing)}")
        return
    read, write = os.pipe()
    command = [
        "Xvfb",
        "-displayfd",
        str(write),
        "-screen",
        "0",
        "1280x800x24",
    ]
    command += ["-nolisten", "tcp", "-noreset"]
    server = subprocess.Popen(
        command,
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as number, tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "DISPLAY": f":{number.readline().strip()}",
            "HOME": home,
            "QT_API": "pyside6",
            "QTWEBENGINE_DISABLE_SANDBOX": "1",
        }
        commands = {
            "bmembed-tui --window": [sys.executable, "-m", "bmembed_tui", "--window"],
            "an empty window": [sys.executable, "-c", EMPTY_WINDOW],
        }
        measured: dict[str, list[Seconds]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                measured[name].append(measure_first_paint(command, environment))
    server.terminate()
    server.wait()
    for name, rounds in measured.items():
        clock = [seconds.clock for seconds in rounds]
        processor = [seconds.processor for seconds in rounds]
        print(
            f"{name:<22} {statistics.median(clock):.2f} s (of {ROUNDS}, least {min(clock):.2f} s),"
            f" of the processors {statistics.median(processor):.2f} s"
            f" (least {min(processor):.2f} s)"
        )
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
