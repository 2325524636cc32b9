"""The projects of this machine and what runs in them, read from files for the first screen."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bmembed_tui.client.progress import format_progress
from bmembed_tui.client.project_status import format_current_step
from bmembed_tui.client.run_state import RunState
from bmembed_tui.client.run_watch import EVENTS, LogReader, find_newest_run
from bmembed_tui.home.recents import KnownProject, list_recent_projects
from engine.core.errors import EngineError
from engine.project.folder import ProjectFolder, known_projects


def list_projects() -> list[KnownProject]:
    """Return the projects opened lately, then others of the user's data folder.

    The others are sorted by their newest run, newest first. Never raises.
    """
    paths = list(list_recent_projects())
    with suppress(OSError, EngineError):
        paths += sorted(
            known_projects(),
            key=_get_newest_run_name,
            reverse=True,
        )
    return [describe_project(path) for path in dict.fromkeys(paths)]


def _get_newest_run_name(project: Path) -> str:
    """Return the name of the newest run, which begins with its date; empty without a run."""
    folder = find_newest_run(project)
    if folder is None:
        return ""
    return folder.name


def describe_project(path: Path) -> KnownProject:
    """Return what is known of a project without opening it."""
    project = ProjectFolder(path)
    running = False
    problem = ""
    documents: tuple[Path, ...] = ()
    try:
        running = project.is_running()
        documents = tuple(project.sources(project.settings()))
    except (EngineError, OSError, ValueError) as error:
        problem = getattr(error, "what", "") or str(error)
    activity = ""
    if running:
        activity = describe_run(path)
    return KnownProject(
        path,
        running,
        activity,
        problem,
        documents,
    )


def describe_run(path: Path) -> str:
    """Return the step and progress of the newest run: `Train · step 120 of 400`."""
    state = RunState()
    folder = find_newest_run(path)
    if folder is not None:
        state.apply_all(LogReader(folder / EVENTS).read_rest())
    prefix = "paused: " if state.paused else ""
    return f"{prefix}{format_current_step(state)}{format_progress(state)}"
