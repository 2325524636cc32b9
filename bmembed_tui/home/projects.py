"""The projects of this machine and what goes on in them, read from their files: for the first
screen.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bmembed_tui.client.progress import format_progress
from bmembed_tui.client.project_status import at_work
from bmembed_tui.client.run_state import RunState
from bmembed_tui.client.run_watch import EVENTS, LogReader, newest_run
from bmembed_tui.home.recents import Known, recent
from engine.core.errors import EngineError
from engine.project.folder import ProjectFolder, known_projects


def known() -> list[Known]:
    """Projects opened lately, then the others of the user's data folder, the newest run first.

    Never raises.
    """
    paths = list(recent())
    with suppress(OSError, EngineError):
        paths += sorted(
            known_projects(), key=lambda path: getattr(newest_run(path), "name", ""), reverse=True
        )
    return [look_at(path) for path in dict.fromkeys(paths)]


def look_at(path: Path) -> Known:
    """What can be said of a project without opening it."""
    project = ProjectFolder(path)
    running = False
    problem = ""
    documents = tuple[Path, ...]()
    try:
        running = project.is_running()
        documents = tuple(project.sources(project.settings()))
    except (EngineError, OSError, ValueError) as error:
        problem = getattr(error, "what", "") or str(error)
    return Known(path, running, run_doing(path) if running else "", problem, documents)


def run_doing(path: Path) -> str:
    """Step and progress of the newest run: `Train · step 120 of 400`."""
    state = RunState()
    folder = newest_run(path)
    if folder is not None:
        state.apply_all(LogReader(folder / EVENTS).rest())
    return f"{'paused: ' if state.paused else ''}{at_work(state)}{format_progress(state)}"
