"""Follows a run's event log: many events a second become a few changes of state a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from bmembed_tui.client.run_state import RunState
from engine.core.errors import EngineError
from engine.core.events import Event, Progress, TrainStep, decode
from engine.project.control import run_records
from engine.project.folder import ProjectFolder

POLL_SECONDS = 0.2
BATCH_BYTES = 1 << 18  # read and decoded in one go: a long history must not hold up typing
STEPS_KEPT = 250  # of the steps in one batch: a screen cannot show more
EVENTS = "events.jsonl"


class LogReader:
    """Reads an event log a batch at a time, without what later events of the batch replace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0

    def batch(self) -> tuple[list[Event], bool]:
        """The next events, and whether more is waiting. Never raises.

        A line without its end is left for later; one that is no event is passed over.
        """
        try:
            data = self._read()
        except OSError:
            return [], False
        end = data.rfind(b"\n") + 1
        self.offset += end
        lines = data[:end].split(b"\n")[:-1]
        decoded = (decode(line.decode("utf-8", "replace")) for line in worth_decoding(lines))
        return [event for event in decoded if event is not None], len(data) >= BATCH_BYTES

    def _read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(BATCH_BYTES)
            # one very long line
            while len(data) >= BATCH_BYTES and b"\n" not in data[-BATCH_BYTES:]:
                more = file.read(BATCH_BYTES)
                if not more:
                    break
                data += more
        return data

    def rest(self) -> Iterator[Event]:
        more = True
        while more:
            events, more = self.batch()
            yield from events


def worth_decoding(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without those that a later one replaces.

    Of progress that follows on progress the last counts; of very many steps in a row some, and
    always the last.
    """
    for kind, block in groupby(lines, _kind):
        same = list(block)
        if kind == Progress.name:
            stride = len(same)
        elif kind == TrainStep.name:
            stride = 1 + len(same) // STEPS_KEPT
        else:
            stride = 1
        yield from same[(len(same) - 1) % stride :: stride]


def _kind(line: bytes) -> str:
    for name in (Progress.name, TrainStep.name):
        if line.startswith(b'{"event": "%s"' % name.encode()):
            return name
    return ""


class RunWatch:
    """Tails `runs/ID/events.jsonl` from its beginning.

    `on_change` is called in the event loop, at most five times a second, for the first time when
    all that was written before is read.
    """

    def __init__(self, folder: Path, on_change: Callable[[RunState], object]) -> None:
        self.folder = folder
        self.state = RunState()
        self._on_change = on_change
        self._log = LogReader(folder / EVENTS)
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self._changed = False  # since `on_change` was called last, whoever read it

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def catch_up(self) -> None:
        more = True
        while more:
            more = await self._next()

    async def _follow(self) -> None:
        history = _size(self.folder / EVENTS)
        shown = -POLL_SECONDS
        while True:
            more = await self._next()
            due = time.monotonic() - shown >= POLL_SECONDS
            if self._changed and due and (self._log.offset >= history or not more):
                self._changed = False
                shown = time.monotonic()
                self._on_change(self.state)
            if not more:
                if self.state.over and not self._changed:
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def _next(self) -> bool:
        """Take in a batch; returns whether more is waiting.

        A batch that is being read is taken in also when nobody waits for it any longer: it is not
        read again.
        """
        return await asyncio.shield(asyncio.ensure_future(self._take()))

    async def _take(self) -> bool:
        async with self._reading:
            events, more = await asyncio.to_thread(self._log.batch)
            self.state.apply_all(events)
            self._changed = self._changed or bool(events)
        return more


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def newest_run(project: Path) -> Path | None:
    """The folder of the newest run; None before the first."""
    try:
        return max(path for path in (project / "runs").iterdir() if path.is_dir())
    except (OSError, ValueError):
        return None


def settings_time(project: Path) -> float:
    """When project.toml was written, in seconds since the epoch; 0 where it cannot be seen."""
    try:
        return (project / "project.toml").stat().st_mtime
    except OSError:
        return 0.0


def is_held(project: ProjectFolder) -> bool:
    """Whether some process holds the project; true also where that is not known."""
    try:
        return project.is_running()
    except (EngineError, OSError):
        return True


def error_of(project: ProjectFolder, folder: Path) -> EngineError | None:
    """The error in a run's record: also one that came between two stages."""
    return next((record.error for record in run_records(project) if record.folder == folder), None)
