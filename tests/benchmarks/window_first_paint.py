"""How long `bmembed-tui --window` takes to its first painted screen, compared with an empty window
of the same library.

Seconds on the clock, and of the processors over all of its processes, which a busy machine blurs
less. Wants Xvfb, Pillow and the extra `desktop`; says so where they are missing.
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

ROUNDS = 5
EMPTY = (
    "import webview; webview.create_window('e', html='<body style=\"background:#5fa8d3\">');"
    " webview.start(gui='qt')"
)
COLOUR = (0x5F, 0xA8, 0xD3)


def seconds_until_painted(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """From the start of `command` until the colour of a chosen line is on the display: on the
    clock, and of the processors.
    """
    import numpy as np
    import psutil
    from PIL import ImageGrab

    started = time.perf_counter()
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while time.perf_counter() - started < 60:
            picture = np.asarray(
                ImageGrab.grab(xdisplay=environment["DISPLAY"]).convert("RGB")
            ).astype(int)
            if (np.abs(picture - np.array(COLOUR)).max(axis=2) < 4).mean() > 0.01:
                taken = time.perf_counter() - started
                main = psutil.Process(child.pid)
                used = [one.cpu_times() for one in (main, *main.children(recursive=True))]
                return taken, sum(one.user + one.system for one in used)
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
    missing += [] if shutil.which("Xvfb") else ["Xvfb"]
    if missing:
        print(f"window_first_paint: not installed here: {', '.join(missing)}")
        return
    read, write = os.pipe()
    server = subprocess.Popen(
        [
            "Xvfb",
            "-displayfd",
            str(write),
            "-screen",
            "0",
            "1280x800x24",
            "-nolisten",
            "tcp",
            "-noreset",
        ],
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
            "an empty window": [sys.executable, "-c", EMPTY],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                taken[name].append(seconds_until_painted(command, environment))
    server.terminate()
    server.wait()
    for name, both in taken.items():
        seconds, used = zip(*both, strict=True)
        print(
            f"{name:<22} {statistics.median(seconds):.2f} s (of {ROUNDS}, least {min(seconds):.2f}"
            f" s), of the processors {statistics.median(used):.2f} s (least {min(used):.2f} s)"
        )
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
