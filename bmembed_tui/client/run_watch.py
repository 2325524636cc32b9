"""Following a run's event log: many events a second become a few changes of state a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from bmembed_tui.client.run_state import RunState
from engine.core.disk import get_file_size
from engine.core.errors import EngineError
from engine.core.events import Event, Progress, TrainStep, decode
from engine.project.control import run_records
from engine.project.folder import ProjectFolder

POLL_SECONDS = 0.2
BATCH_BYTES = 1 << 18  # read and decoded at once: a long history must not delay typing
STEPS_KEPT = 250  # of the steps in one batch: a screen cannot show more
EVENTS = "events.jsonl"


class LogReader:
    """Reads an event log in batches, leaving out events that later ones of the batch replace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0

    def read_batch(self) -> tuple[list[Event], bool]:
        """Return the next events, and whether the log holds more. Never raises.

        An incomplete last line is left for later; a line that is not an event is skipped.
        """
        try:
            data = self._read()
        except OSError:
            return [], False
        complete, line_end, _ = data.rpartition(b"\n")
        self.offset += len(complete) + len(line_end)
        lines = complete.split(b"\n") if line_end else []
        decoded = (decode(line.decode("utf-8", "replace")) for line in drop_superseded_lines(lines))
        return [event for event in decoded if event is not None], len(data) >= BATCH_BYTES

    def _read(self) -> bytes:
        """Return the next `BATCH_BYTES` of the log, or more where a line is longer than that."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(BATCH_BYTES)
            # A line longer than a batch is read on to its end.
            while len(data) >= BATCH_BYTES and b"\n" not in data[-BATCH_BYTES:]:
                next_data = file.read(BATCH_BYTES)
                if not next_data:
                    break
                data += next_data
        return data

    def read_rest(self) -> Iterator[Event]:
        """Return the events from here to the end of the log."""
        has_more = True
        while has_more:
            events, has_more = self.read_batch()
            yield from events


def drop_superseded_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Return the lines without those that a later one replaces.

    Of consecutive progress events only the last is kept; of very many consecutive steps, an even
    sample that includes the last.
    """
    for kind, block in groupby(lines, _find_kind):
        block_lines = list(block)
        if kind == Progress.name:
            stride = len(block_lines)
        elif kind == TrainStep.name:
            stride = 1 + len(block_lines) // STEPS_KEPT
        else:
            stride = 1
        first = (len(block_lines) - 1) % stride  # so that the last line of the block is kept
        yield from block_lines[first::stride]


def _find_kind(line: bytes) -> str:
    """Return the name of a line's event if it is one that may be dropped; else empty."""
    for name in (Progress.name, TrainStep.name):
        if line.startswith(b'{"event": "%s"' % name.encode()):
            return name
    return ""


class RunWatch:
    """Follows `runs/ID/events.jsonl` from its beginning.

    `on_change` is called in the event loop at most five times a second, and for the first time
    after the log's history has been read.
    """

    def __init__(self, folder: Path, on_change: Callable[[RunState], object]) -> None:
        self.folder = folder
        self.state = RunState()
        self._on_change = on_change
        self._log = LogReader(folder / EVENTS)
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self._changed = False  # whether events were read since the last call of `on_change`

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def catch_up(self) -> None:
        """Apply all events that are in the log now."""
        has_more = True
        while has_more:
            has_more = await self._read_batch()

    async def _follow(self) -> None:
        """Read the log until the run is over, and report changes every `POLL_SECONDS`."""
        history_size = get_file_size(self.folder / EVENTS)
        last_call = -POLL_SECONDS
        while True:
            has_more = await self._read_batch()
            is_due = time.monotonic() - last_call >= POLL_SECONDS
            has_history = self._log.offset >= history_size or not has_more
            if self._changed and is_due and has_history:
                self._changed = False
                last_call = time.monotonic()
                self._on_change(self.state)
            if not has_more:
                if self.state.over and not self._changed:
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def _read_batch(self) -> bool:
        """Apply the next batch of events and return whether the log holds more.

        Shielded: a batch that has been read must also be applied, since it is not read again.
        """
        return await asyncio.shield(asyncio.ensure_future(self._apply_batch()))

    async def _apply_batch(self) -> bool:
        """Read a batch of events, apply it to the state, and return whether the log holds more."""
        async with self._reading:
            events, has_more = await asyncio.to_thread(self._log.read_batch)
            self.state.apply_all(events)
            self._changed = self._changed or bool(events)
        return has_more


def find_newest_run(project: Path) -> Path | None:
    """Return the folder of the newest run; None before the first."""
    try:
        return max(path for path in (project / "runs").iterdir() if path.is_dir())
    except (OSError, ValueError):
        return None


def read_settings_time(project: Path) -> float:
    """Return when project.toml was written, in seconds since the epoch; 0 if it cannot be read."""
    try:
        return (project / "project.toml").stat().st_mtime
    except OSError:
        return 0.0


def is_held(project: ProjectFolder) -> bool:
    """Return whether a process holds the project, or true where that cannot be found out."""
    try:
        return project.is_running()
    except (EngineError, OSError):
        return True


def read_run_error(project: ProjectFolder, folder: Path) -> EngineError | None:
    """Return the error in the record of the run in `folder`, or None.

    Unlike the event log, the record also has errors that happened between two stages.
    """
    for record in run_records(project):
        if record.folder == folder:
            return record.error
    return None
