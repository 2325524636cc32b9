"""What `engine status PROJECT` shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.api import Project

FILES_SHOWN = 10  # of each state


def status_of(project: Project) -> dict[str, Any]:
    """For JSON: how far every stage is, what is in the project, how the run that goes on does.

    `progress` (engine.runs.progress.RunProgress) is None where no run goes on; `resumes_at` {"step", "steps"} is None where no
    training waits to be resumed. `sweep` (engine.experiments.sweep.workspace.unfinished) and `sweep_progress` are None where
    none goes on.
    """
    from engine.core.errors import EngineError
    from engine.experiments.sweep.workspace import sweeping, unfinished
    from engine.project.control import latest_run, running
    from engine.runs.progress import progress_of

    current, is_running, sweep, in_sweep = None, False, None, None
    with suppress(EngineError):  # a disk that cannot be written to: no run goes on there
        current, is_running = running(project.folder), project.folder.is_running()
        sweep = unfinished(project.folder)
        in_sweep = running(sweeping(project.folder)) if sweep and sweep["running"] else None
    return {
        "project": str(project.path),
        "running": is_running,
        "counts": project.counts(),
        "stages": [asdict(stage) for stage in project.status()],
        "latest_run": latest_run(project.folder),
        "progress": progress_of(Path(current["folder"])).as_dict() if current else None,
        "sweep": sweep,
        "sweep_progress": progress_of(Path(in_sweep["folder"])).as_dict() if in_sweep else None,
        "resumes_at": None if current else _resumes_at(project),
        "skipped": project.skipped(),
        "quarantined": project.quarantined(),
    }


def _resumes_at(project: Project) -> dict[str, int] | None:
    from engine.core.errors import EngineError
    from engine.project.stage import ProjectSnapshot
    from engine.runs.progress import resume_point

    with closing(project.folder.store()) as store:
        with suppress(EngineError):  # such as rankings that are not there yet: nothing to resume, then
            if point := resume_point(ProjectSnapshot(project.folder, project.settings(), store)):
                return {"step": point[0], "steps": point[1]}
        return None


def as_text(found: Mapping[str, Any], name: str) -> Iterator[str]:
    """The lines for a terminal. File names in them are not made harmless yet."""
    yield found["project"] + ("  (a run is going on)" if found["running"] else "")
    yield " · ".join(f"{name.replace('_', ' ')}: {count}" for name, count in found["counts"].items())
    if found["progress"]:
        yield from _progress(found["progress"], name)
    for stage in found["stages"]:
        yield f"  {stage['stage']:<9} {stage['state']:<6} {stage['reason']}"
    if not found["running"] and (found.get("latest_run") or {}).get("state") == "failed":
        yield from _failed(found["latest_run"].get("error"))
    if point := found["resumes_at"]:
        yield f"  Training would resume at step {point['step']} of {point['steps']}: engine train {shlex.quote(name)}"
    if found["sweep"]:
        yield from _sweep(found["sweep"], found["sweep_progress"], name)
    yield from _unread("skipped", found["skipped"], name)
    yield from _unread("quarantined", found["quarantined"], name)


def _failed(error: Any) -> Iterator[str]:
    """Why the newest run ended: nobody may have been there to see it."""
    parts_of = {name: str(text) for name, text in error.items()} if isinstance(error, dict) else {}
    parts = (parts_of.get("what", ""), parts_of.get("why", ""), parts_of.get("to_do", ""))
    yield "  The last run failed. " + " ".join(part for part in parts if part)


def _sweep(sweep: Mapping[str, Any], progress: Mapping[str, Any] | None, name: str) -> Iterator[str]:
    done = f"{sweep['finished']} cell{'' if sweep['finished'] == 1 else 's'} finished"
    if not sweep["running"]:
        yield f"  A sweep was broken off, {done}; the same 'engine sweep {shlex.quote(name)} …' goes on."
        return
    yield f"  A sweep goes on, {done}."
    if progress:
        yield from _progress(progress, name)


def _progress(progress: Mapping[str, Any], name: str) -> Iterator[str]:
    from engine.core.text import duration

    parts = [progress["stage"] or "before its first stage"]
    if progress["total"]:
        parts.append(f"{progress['done']} of {progress['total']} {progress['unit']}")
    if progress["loss"] is not None:
        parts.append(f"loss {progress['loss']:.3f}")
    if progress["seconds_left"] is not None:
        parts.append(f"about {duration(progress['seconds_left'])} left")
    yield "  now       " + ", ".join(parts)
    if progress["paused"]:
        state = "paused" if progress["paused"] == "waiting" else "pauses at its next safe point"
        yield f"  {state}; to go on: engine resume {shlex.quote(name)}"


def _unread(state: str, files: Mapping[str, str], name: str) -> Iterator[str]:
    for path, reason in list(files.items())[:FILES_SHOWN]:
        yield f"  {state:<9} {path}: {reason}"
    if (more := len(files) - FILES_SHOWN) > 0:
        yield f"  … and {more} more {state} (engine documents {shlex.quote(name)} --state {state} lists all)"
