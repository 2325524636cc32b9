"""How long the Search step takes from a key to the painted screen, with 200,000 chunks in the
project.

`python tests/benchmarks/key_to_paint.py [CHUNKS] [--project FOLDER] [--size 120x40]` prints the
median and the 95th percentile, in milliseconds, and the processor time that it took, of
- a letter typed into the search field while hits are on the screen, until it is painted,
- an answer of the engine, from its arrival as a line of JSON until its hits are painted,
- the two of one letter added: the whole way of a key to new hits, without the pause in typing and
  the query itself,
- an arrow key on the hits, and a mode key whose answer is there already, until painted;
and the memory of the app's process. Painting counts with the making of the bytes that a terminal
would get. The project is built and searched in other processes; --project keeps it in FOLDER, and
takes one that is there.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

LETTERS = 80
ARROWS = 150
MODE_KEYS = 45
WORD_LETTERS = 8
STILL = 0.1  # seconds after a key in which everything that it paints has been painted
DEBOUNCED = 0.14  # a little less than the pause in typing after which a question is asked

# In another process: the app's own has neither numpy nor an index.
BUILD = """
import pathlib, sys
from fixtures.big_project import build_big_project, vocabulary
words, folder = map(pathlib.Path, sys.argv[1:3])
words.write_text(" ".join(vocabulary()))
if not folder.exists():
    from engine.project.store.artifacts import Artifact
    from engine.project.store.artifact_info import CorpusInfo
    store = build_big_project(folder, int(sys.argv[3])).store()
    info = CorpusInfo(store.corpus_fingerprint())
    store.put_artifact(Artifact(info, "big"))  # else the app would say that nothing was read yet
    store.close()
"""


Moment = tuple[float, float]


def now() -> Moment:
    """The clock, and this thread's processor time, in seconds."""
    return time.perf_counter(), time.thread_time()


class Paints:
    """When the screen was painted; the bytes for a terminal are made as a driver would make
    them.
    """

    def __init__(self, app: Any) -> None:
        self.ended: list[tuple[float, float]] = []
        self.bytes = 0
        display = app._display

        def painted(screen: Any, renderable: Any) -> None:
            display(screen, renderable)
            if renderable is not None and not app._batch_count:
                make = getattr(renderable, "render_segments", None)
                self.bytes += len(make(app.console)) if make else 0
                self.ended.append(now())

        app._display = painted

    def since(self, start: Moment, which: int = -1) -> Moment | None:
        """(wall, processor) milliseconds from `start` to the last paint after it, or to the
        first one (0).
        """
        after = [end for end in self.ended if end[0] >= start[0]]
        if after:
            return (1000 * (after[which][0] - start[0]), 1000 * (after[which][1] - start[1]))
        return None


class Arrivals:
    """When answers to searches have arrived, and when their hits had been handed to the lists."""

    def __init__(self, client: Any, searching: Any) -> None:
        self.at: list[Moment] = []
        self.handled: list[Moment] = []
        changed = searching.changed

        def handled(mode: str) -> None:
            changed(mode)
            self.handled.append(now())

        searching.changed = handled
        answer = client.receive

        def arrived(line: bytes) -> None:
            if b'"hits"' in line[-200_000:]:
                self.at.append(now())
            answer(line)

        client.receive = arrived


def press(app: Any, key: str) -> Moment:
    """Send a key as the terminal's driver does; returns when."""
    from textual import events

    event = events.Key(key, key if len(key) == 1 else None)
    event.set_sender(app)
    start = now()
    app._driver.send_message(event)
    return start


async def until(condition: Any, seconds: float = 120) -> None:
    """Wait for a condition."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise SystemExit("the app did not come to the point that was waited for")
        await asyncio.sleep(0.02)


async def measure(project: str, size: tuple[int, int]) -> None:
    """Drive the app and print."""
    import psutil

    from bmembed_tui.app import BmembedApp

    app = BmembedApp(project)
    async with app.run_test(size=size) as pilot:
        await until(lambda: getattr(app.screen, "pane", None) is not None)
        screen: Any = app.screen
        screen.go("search")
        await until(lambda: screen.is_at("search") and screen.pane.searching.encoder == "ready")
        field = screen.query_one("#search-query")
        field.cursor_blink = False
        paints = Paints(app)
        arrivals = Arrivals(screen.client, screen.pane.searching)
        await pilot.pause(0.5)
        for mode in ("bm25", "hybrid", "all"):
            screen.pane.action_mode(mode)
            field.focus()
            await _typing(app, screen.pane, field, paints, arrivals, mode)
        await _moving(app, screen.pane, paints)
        memory = psutil.Process().memory_info().rss / 2**20
        searching = [child.memory_info().rss / 2**20 for child in psutil.Process().children()]
    print(
        f"memory of the app {memory:.0f} MB (the engine's search process {sum(searching):.0f} MB)"
    )


async def _typing(
    app: Any, pane: Any, field: Any, paints: Paints, arrivals: Arrivals, mode: str
) -> None:
    words = _words()
    letters = []
    answers = []
    both = []
    field.value = ""
    for number in range(LETTERS):
        if number % WORD_LETTERS == 0:
            field.value = ""
            word = itertools.chain(next(words), itertools.repeat("a"))
            field.value = f"{next(words)} "
            field.cursor_position = len(field.value)
            await until(
                lambda: pane.searching.question.query == field.value and not pane.searching.pending
            )
            await asyncio.sleep(0.5)
        arrivals.at.clear()
        arrivals.handled.clear()
        start = press(app, next(word))
        await asyncio.sleep(DEBOUNCED)
        letter = paints.since(start, 0)
        await until(
            lambda: pane.searching.question.query == field.value and not pane.searching.pending
        )
        await asyncio.sleep(STILL)
        came = _painted(paints, arrivals)
        if letter is not None and came is not None:
            letters.append(letter)
            answers.append(came)
            both.append((letter[0] + came[0], letter[1] + came[1]))
    tell(f"{mode}: letter typed", letters)
    tell(f"{mode}: answer to its hits", answers)
    tell(f"{mode}: both", both)


def _painted(paints: Paints, arrivals: Arrivals) -> Moment | None:
    """From an answer's arrival until its hits were painted; of several answers to one letter,
    the longest way.
    """
    found = []
    for came, handled in zip(arrivals.at, arrivals.handled, strict=False):
        painted = paints.since(handled, 0)
        if painted:
            found.append(
                (
                    painted[0] + 1000 * (handled[0] - came[0]),
                    painted[1] + 1000 * (handled[1] - came[1]),
                )
            )
    if found:
        return max(found)
    return None


async def _moving(app: Any, pane: Any, paints: Paints) -> None:
    pane.active_list.focus()
    await asyncio.sleep(0.6)
    arrows = []
    for number in range(ARROWS):
        down = number // 9 % 2 == 0
        start = press(app, "down" if down else "up")
        await asyncio.sleep(STILL)
        if (
            found := paints.since(start, 0)
        ) is not None and pane.screen.focused is pane.active_list:
            arrows.append(found)
    tell("arrow on the hits", arrows)
    pane.action_mode("bm25")
    modes = []
    for number in range(MODE_KEYS):
        start = press(app, ("f5", "f6", "f7")[number % 3])
        await asyncio.sleep(5 * STILL)
        if (found := paints.since(start, 0)) is not None and number >= 3:
            modes.append(found)
    tell("mode key", modes)


def _words() -> Any:
    words = Path(os.environ["WORDS"]).read_text().split()
    rng = random.Random(1)
    while True:
        yield words[int(len(words) ** rng.random()) - 1]


def tell(what: str, taken: list[Moment]) -> None:
    """Median, 95th percentile and worst; and the processor's part, which other programs on the
    machine change little.
    """
    wall, processor = ([one[part] for one in taken] for part in (0, 1))
    p95, busy95 = (statistics.quantiles(times, n=20)[-1] for times in (wall, processor))
    told = f"p50 {statistics.median(wall):6.1f} ms   p95 {p95:6.1f} ms   worst {max(wall):6.1f} ms"
    print(f"{what:<28} {told}   processor p95 {busy95:5.1f} ms   ({len(taken)} times)", flush=True)


def main() -> None:
    """Build, then measure, each in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chunks", type=int, nargs="?", default=200_000)
    parser.add_argument("--project", type=Path)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        width, _, height = given.size.partition("x")
        asyncio.run(measure(str(given.project), (int(width), int(height))))
        return
    with tempfile.TemporaryDirectory() as home:
        folder = given.project or Path(home) / "big"
        words = Path(home) / "words.txt"
        environment = dict(
            os.environ, PYTHONPATH=os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])
        )
        build = [sys.executable, "-c", BUILD, str(words), str(folder), str(given.chunks)]
        subprocess.run(build, check=True, env=environment)
        own = dict.fromkeys(("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), home)
        command = [
            sys.executable,
            __file__,
            "--measure",
            "--project",
            str(folder),
            "--size",
            given.size,
        ]
        subprocess.run(command, check=True, env=dict(os.environ, WORDS=str(words), **own))


if __name__ == "__main__":
    main()
