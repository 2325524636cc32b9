"""How long a key takes in the app, at rest and while a run writes 2,000 events a second.

`python tests/benchmarks/event_flood.py PROJECT` works on a copy of the project, whose index must be
built.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.app import BmembedApp
from bmembed_tui.project.screen import ProjectScreen

FLOOD = Path(__file__).parent.parent / "fixtures" / "flood.py"
EVENTS_PER_SECOND = 2000
FLOOD_SECONDS = 12
KEYS = 150
PAUSE_SECONDS = 0.03  # between two keys: fast typing


async def press_letters(
    pilot: Pilot[None],
    field: Input,
    count: int,
) -> list[float]:
    """Press letters, and return the seconds from each until the field contains it.

    The time begins when the terminal's driver hands on the key.
    """
    seconds = []
    for number in range(count):
        if number % 20 == 0:
            field.value = ""
        length = len(field.value)
        started = time.perf_counter()
        letter = "abcdefghij"[number % 10]
        assert pilot.app._driver is not None
        pilot.app._driver.send_message(Key(letter, letter))
        while len(field.value) == length:
            await asyncio.sleep(0)
        seconds.append(time.perf_counter() - started)
        await asyncio.sleep(PAUSE_SECONDS)
    return seconds


def format_latencies(name: str, seconds: list[float]) -> str:
    p50 = 1000 * statistics.median(seconds)
    p95 = 1000 * statistics.quantiles(seconds, n=20)[-1]
    worst = 1000 * max(seconds)
    return f"{name:<28} p50 {p50:6.1f} ms   p95 {p95:6.1f} ms   worst {worst:6.1f} ms"


async def measure(project: Path) -> None:
    """Print the latencies of keys in step Search, without and with the flood."""
    app = BmembedApp(str(project))
    async with app.run_test(size=(120, 40)) as pilot:
        while not (
            isinstance(app.screen, ProjectScreen)
            and app.screen.status.built("index")
            and app.screen.pane
        ):
            await pilot.pause(0.1)
        screen = app.screen
        screen.action_go("search")
        await pilot.pause(1.0)
        field = screen.query_one("#search-query", Input)
        field.focus()
        await press_letters(pilot, field, 20)  # the first ones take longer
        print(format_latencies("at rest", await press_letters(pilot, field, KEYS)))
        command = [
            sys.executable,
            str(FLOOD),
            str(project),
        ]
        command += [str(EVENTS_PER_SECOND), str(FLOOD_SECONDS)]
        writer = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
        )
        while not screen.run_state.running:
            await pilot.pause(0.05)
        seconds = await press_letters(pilot, field, KEYS)
        print(format_latencies(f"{EVENTS_PER_SECOND:,} events a second", seconds))
        outlasted = writer.poll() is None
        while not screen.run_state.over:
            await pilot.pause(0.1)
        assert writer.stdout is not None
        written = int(writer.stdout.read())
        print(f"events written {written:,}; flood outlasted the typing: {outlasted}")


def main() -> None:
    """Measure in a copy of the project."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(sys.argv[1], Path(folder) / "project"))
        asyncio.run(measure(copy))


if __name__ == "__main__":
    main()
