"""The projects of this machine and what goes on in them, read from their files: for the first screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bmembed_tui.client.run_watch import EVENTS, LogReader, run_record
from bmembed_tui.home.recents import recent
from engine.core.errors import EngineError
from engine.core.events import Event, HeldOut, Paused, Progress, Resumed, StageStarted, TrainStep
from engine.project.folder import ProjectFolder, known_projects

TAIL = 65_536  # bytes at the end of an event log that are looked at


@dataclass(frozen=True)
class Known:
    """A project on this machine. `doing`: what its run does; `problem`: why it cannot be opened."""

    path: Path
    running: bool = False
    doing: str = ""
    problem: str = ""


def known() -> list[Known]:
    """Projects opened lately, then the others of the user's data folder. Never raises."""
    paths = list(recent())
    with suppress(OSError, EngineError):
        paths += known_projects()
    return [look_at(path) for path in dict.fromkeys(paths)]


def look_at(path: Path) -> Known:
    """What can be said of a project without opening it."""
    project = ProjectFolder(path)
    running = False
    try:
        running = project.is_running()
        project.settings()
    except (EngineError, OSError, ValueError) as error:
        return Known(path, running, run_doing(path) if running else "", getattr(error, "what", "") or str(error))
    return Known(path, running, run_doing(path) if running else "")


def run_doing(path: Path) -> str:
    """Stage and progress of the newest run that says it goes on: `train · step 120 of 400`."""
    for folder in _run_folders(path):
        if run_record(folder).get("state") == "running":
            return _format_doing(LogReader(folder / EVENTS, last=TAIL).rest())
    return "starting"


def _run_folders(path: Path) -> list[Path]:
    with suppress(OSError):
        return sorted((path / "runs").iterdir(), reverse=True)[:5]
    return []


def _format_doing(events: Iterator[Event]) -> str:
    stage, progress, paused = "", "", False
    for event in events:
        match event:
            case StageStarted():
                stage, progress = event.stage, ""
            case Progress():
                stage, progress = event.stage, f" · {event.done:,} of {event.total:,} {event.unit}"
            case TrainStep():
                stage, progress = "train", f" · step {event.step:,} of {event.steps:,}"
            case HeldOut():
                stage = "train"
            case Paused() | Resumed():
                stage, paused = event.stage, isinstance(event, Paused)
    return f"{'paused: ' if paused else ''}{stage or 'starting'}{progress}"
