"""How long the Search step takes from a key to the painted screen, with 200,000 chunks.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

LETTERS = 80
ARROWS = 150
MODE_KEYS = 45
WORD_LETTERS = 8
STILL_SECONDS = 0.1  # after a key, until everything that it changes has been painted
# A little less than the pause in typing after which a question is asked.
DEBOUNCE_SECONDS = 0.14

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


class Moment(NamedTuple):
    """The clock, and this thread's processor time, in seconds."""

    wall: float
    processor: float


@dataclass(frozen=True, order=True)
class Duration:
    """Between two moments, in milliseconds."""

    wall: float
    processor: float

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.wall + other.wall, self.processor + other.processor)


def now() -> Moment:
    """Return this moment."""
    return Moment(time.perf_counter(), time.thread_time())


def measure_between(start: Moment, end: Moment) -> Duration:
    """Return how long it was from one moment to the other."""
    return Duration(1000 * (end.wall - start.wall), 1000 * (end.processor - start.processor))


class Paints:
    """The moments when the screen had been painted.

    The bytes for a terminal are made too, as a driver would make them.
    """

    def __init__(self, app: Any) -> None:
        self.ends: list[Moment] = []
        self.bytes = 0
        display = app._display

        def display_and_note(screen: Any, renderable: Any) -> None:
            display(screen, renderable)
            if renderable is not None and not app._batch_count:
                make_bytes = getattr(renderable, "render_segments", None)
                self.bytes += len(make_bytes(app.console)) if make_bytes else 0
                self.ends.append(now())

        app._display = display_and_note

    def first_after(self, start: Moment) -> Duration | None:
        """Return how long it was until the first paint, None if there was none yet."""
        for end in self.ends:
            if end.wall >= start.wall:
                return measure_between(start, end)
        return None


class Arrivals:
    """When answers to searches have arrived, and when their hits had been handed to the lists."""

    def __init__(self, client: Any, searching: Any) -> None:
        self.arrived: list[Moment] = []
        self.handled: list[Moment] = []
        changed = searching.changed
        receive = client.receive

        def change_and_note(mode: str) -> None:
            changed(mode)
            self.handled.append(now())

        def note_and_receive(line: bytes) -> None:
            if b'"hits"' in line[-200_000:]:
                self.arrived.append(now())
            receive(line)

        searching.changed = change_and_note
        client.receive = note_and_receive

    def clear(self) -> None:
        """Forget all answers so far."""
        self.arrived.clear()
        self.handled.clear()


def press(app: Any, key: str) -> Moment:
    """Send a key as the terminal's driver does, and return the moment before it."""
    from textual import events

    event = events.Key(key, key if len(key) == 1 else None)
    event.set_sender(app)
    start = now()
    app._driver.send_message(event)
    return start


async def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for a condition."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise SystemExit("the app did not come to the point that was waited for")
        await asyncio.sleep(0.02)


async def measure(project: str, size: tuple[int, int]) -> None:
    """Drive the app, and print what keys and answers take."""
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
            await _measure_typing(
                app,
                screen.pane,
                field,
                paints,
                arrivals,
                mode,
            )
        await _measure_moving(
            app,
            screen.pane,
            paints,
        )
        process = psutil.Process()
        memory = process.memory_info().rss / 2**20
        search_memory = sum(child.memory_info().rss for child in process.children()) / 2**20
    print(f"memory of the app {memory:.0f} MB (the engine's search process {search_memory:.0f} MB)")


async def _measure_typing(
    app: Any, pane: Any, field: Any, paints: Paints, arrivals: Arrivals, mode: str
) -> None:
    """Type letters, and print how long each and its answer take.

    After every few letters a new word is begun, after another word that has been searched for.
    """

    def is_answered() -> bool:
        searching = pane.searching
        return searching.question.query == field.value and not searching.pending

    words = _draw_words()
    letter_durations = []
    answer_durations = []
    total_durations = []
    field.value = ""
    for number in range(LETTERS):
        if number % WORD_LETTERS == 0:
            field.value = ""
            letters = itertools.chain(next(words), itertools.repeat("a"))
            field.value = f"{next(words)} "
            field.cursor_position = len(field.value)
            await until(is_answered)
            await asyncio.sleep(0.5)
        arrivals.clear()
        start = press(app, next(letters))
        await asyncio.sleep(DEBOUNCE_SECONDS)
        letter_duration = paints.first_after(start)
        await until(is_answered)
        await asyncio.sleep(STILL_SECONDS)
        answer_duration = _measure_answer(paints, arrivals)
        if letter_duration is not None and answer_duration is not None:
            letter_durations.append(letter_duration)
            answer_durations.append(answer_duration)
            total_durations.append(letter_duration + answer_duration)
    print_durations(f"{mode}: letter typed", letter_durations)
    print_durations(f"{mode}: answer to its hits", answer_durations)
    print_durations(f"{mode}: both", total_durations)


def _measure_answer(paints: Paints, arrivals: Arrivals) -> Duration | None:
    """Return how long it was from an answer's arrival until its hits were painted.

    Of several answers to one letter, the longest counts.
    """
    durations = []
    for arrived, handled in zip(arrivals.arrived, arrivals.handled, strict=False):
        painting = paints.first_after(handled)
        if painting is not None:
            durations.append(measure_between(arrived, handled) + painting)
    return max(durations, default=None)


async def _measure_moving(
    app: Any,
    pane: Any,
    paints: Paints,
) -> None:
    """Move in the list of hits, then change the mode, and print how long each takes."""
    pane.active_list.focus()
    await asyncio.sleep(0.6)
    durations = []
    for number in range(ARROWS):
        is_down = number // 9 % 2 == 0
        start = press(app, "down" if is_down else "up")
        await asyncio.sleep(STILL_SECONDS)
        duration = paints.first_after(start)
        if duration is not None and pane.screen.focused is pane.active_list:
            durations.append(duration)
    print_durations("arrow on the hits", durations)
    pane.action_mode("bm25")
    durations = []
    for number in range(MODE_KEYS):
        start = press(app, ("f5", "f6", "f7")[number % 3])
        await asyncio.sleep(5 * STILL_SECONDS)
        duration = paints.first_after(start)
        if duration is not None and number >= 3:
            durations.append(duration)
    print_durations("mode key", durations)


def _draw_words() -> Iterator[str]:
    """Yield words of the project, the frequent ones more often."""
    words = Path(os.environ["WORDS"]).read_text().split()
    rng = random.Random(1)
    while True:
        yield words[int(len(words) ** rng.random()) - 1]


def print_durations(name: str, durations: list[Duration]) -> None:
    """Print the median, the 95th percentile and the worst.

    The processor's part is little changed by other programs on the machine.
    """
    wall = [duration.wall for duration in durations]
    wall_p95 = statistics.quantiles(wall, n=20)[-1]
    processor = [duration.processor for duration in durations]
    processor_p95 = statistics.quantiles(processor, n=20)[-1]
    print(
        f"{name:<28} p50 {statistics.median(wall):6.1f} ms   p95 {wall_p95:6.1f} ms"
        f"   worst {max(wall):6.1f} ms   processor p95 {processor_p95:5.1f} ms"
        f"   ({len(durations)} times)",
        flush=True,
    )


def main() -> None:
    """Build, then measure, each in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "chunks",
        type=int,
        nargs="?",
        default=200_000,
    )
    parser.add_argument("--project", type=Path)
    parser.add_argument("--size", default="120x40")
    parser.add_argument(
        "--measure",
        action="store_true",
        help=argparse.SUPPRESS,
    )
    options = parser.parse_args()
    if options.measure:
        width, _, height = options.size.partition("x")
        asyncio.run(measure(str(options.project), (int(width), int(height))))
        return
    with tempfile.TemporaryDirectory() as home:
        folder = options.project or Path(home) / "big"
        words = Path(home) / "words.txt"
        environment = dict(
            os.environ, PYTHONPATH=os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])
        )
        build = [
            sys.executable,
            "-c",
            BUILD,
            str(words),
            str(folder),
            str(options.chunks),
        ]
        subprocess.run(
            build,
            check=True,
            env=environment,
        )
        app_folders = dict.fromkeys(("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), home)
        command = [
            sys.executable,
            __file__,
            "--measure",
            "--project",
            str(folder),
            "--size",
            options.size,
        ]
        subprocess.run(
            command,
            check=True,
            env=dict(os.environ, WORDS=str(words), **app_folders),
        )


if __name__ == "__main__":
    main()
