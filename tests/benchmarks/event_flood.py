"""How long a key takes in the app, at rest and while a run tells 2,000 events a second.

In one process, on the sample's text.

`python tests/benchmarks/event_flood.py PROJECT`: a project whose index is built. A copy of it is
used.
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
PER_SECOND = 2000
SECONDS = 12
KEYS = 150
PAUSE = 0.03  # between two keys: fast typing


async def latencies(pilot: Pilot[None], field: Input, count: int) -> list[float]:
    """Seconds from a key that the terminal's driver hands on until the field holds its letter."""
    taken = []
    for number in range(count):
        if number % 20 == 0:
            field.value = ""
        length = len(field.value)
        began = time.perf_counter()
        letter = "abcdefghij"[number % 10]
        assert pilot.app._driver is not None
        pilot.app._driver.send_message(Key(letter, letter))
        while len(field.value) == length:
            await asyncio.sleep(0)
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)
    return taken


def shown(name: str, taken: list[float]) -> str:
    cuts = statistics.quantiles(taken, n=20)
    half, most, worst = (
        f"{1000 * seconds:6.1f} ms" for seconds in (statistics.median(taken), cuts[-1], max(taken))
    )
    return f"{name:<28} p50 {half}   p95 {most}   worst {worst}"


async def measure(project: Path) -> None:
    """Print p50 and p95 without and with the flood, typed into the field of the step Search."""
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
        await latencies(pilot, field, 20)
        print(shown("at rest", await latencies(pilot, field, KEYS)))
        command = [sys.executable, str(FLOOD), str(project), str(PER_SECOND), str(SECONDS)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while not screen.run_state.running:
            await pilot.pause(0.05)
        print(shown(f"{PER_SECOND:,} events a second", await latencies(pilot, field, KEYS)))
        still = writer.poll() is None
        while not screen.run_state.over:
            await pilot.pause(0.1)
        assert writer.stdout is not None
        written = int(writer.stdout.read())
        print(f"events written {written:,}; flood outlasted the typing: {still}")


def main() -> None:
    """Work on a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(sys.argv[1], Path(folder) / "project"))
        asyncio.run(measure(copy))


if __name__ == "__main__":
    main()
