"""What `engine status PROJECT` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.messages.documents import STATE_WORDS
from engine.core.messages.project import RunRecord, StageState
from engine.core.messages.report import SearchMode, Standing
from engine.core.platforms.processes import quote_argument
from engine.core.text import format_count
from engine.project.store.artifact_info import InUseInfo
from engine.runs.progress import ResumePoint, RunProgress

if TYPE_CHECKING:
    from engine.api import Project

FILES_SHOWN = 10  # files of each state
STANDINGS: Mapping[Standing, str] = {
    "proved": ", proved on your documents",
    "expected": ", because it helped on public collections; not yet proved on your documents",
    "base": "",
}


@dataclass(frozen=True)
class InUse:
    """What the last evaluation put into use."""

    encoders: Mapping[SearchMode, InUseInfo]  # The encoder of each search mode.
    fusion: str  # How hybrid search fuses both rankings: `rrf` or `weighted`.
    weight: float  # Of the semantic score, 0 to 1, if weighted.


@dataclass(frozen=True)
class Status:
    """How far every stage is, what is in the project, and what its run does.

    Its fields are the keys of `--json`.
    """

    project: Path
    running: bool
    counts: Mapping[str, int]
    stages: Sequence[StageState]
    latest_run: RunRecord | None = None
    progress: RunProgress | None = None  # Of the run in progress.
    # An unfinished sweep (engine.lab.study.workspace.read_unfinished_sweep).
    sweep: Mapping[str, Any] | None = None
    sweep_progress: RunProgress | None = None  # Of the run of the sweep.
    resumes_at: ResumePoint | None = None  # Where a training would resume.
    in_use: InUse | None = None  # None before the first evaluation.
    broken_off: RunProgress | None = None  # How far the last run was, if it was stopped or killed.
    to_resume: str = ""  # Then, what to do.
    skipped: Mapping[str, str] = field(default_factory=dict)  # Path → reason.
    quarantined: Mapping[str, str] = field(default_factory=dict)  # Path → reason.


def read_status(project: Project) -> Status:
    """Return the current status."""
    from engine.core.errors import EngineError
    from engine.lab.study.workspace import find_controlled_project, read_unfinished_sweep
    from engine.project.control import find_run, latest_run, read_run_stages
    from engine.project.stage import SEARCH
    from engine.runs.pipeline import how_to_resume

    current = None
    is_running = False
    sweep = None
    sweep_run = None
    with suppress(EngineError):  # on a read-only disk there is no run in progress
        current = find_run(project.folder)
        is_running = project.folder.is_running()
        sweep = read_unfinished_sweep(project.folder)
        if sweep and sweep["running"]:
            sweep_run = find_run(find_controlled_project(project.folder))
    stages = project.status()
    resumes_at = None
    if current is None and _is_ready_to_train(stages):
        resumes_at = _find_resume_point(project)
    last = latest_run(project.folder)
    broken_off = None
    to_resume = ""
    # The record of a run that was killed says "running" forever.
    if last and not is_running and last.state in ("running", "cancelled"):
        broken_off = last
        to_resume = how_to_resume(project.folder, read_run_stages(last.folder) or SEARCH)
    return Status(
        project.path,
        is_running,
        project.counts(),
        stages,
        last,
        _read_progress(current),
        sweep,
        _read_progress(sweep_run),
        resumes_at,
        _read_what_is_in_use(project),
        _read_progress(broken_off),
        to_resume,
        project.skipped(),
        project.quarantined(),
    )


def _read_progress(run: RunRecord | None) -> RunProgress | None:
    """Return the progress of a run; None without a run."""
    from engine.runs.progress import read_progress

    if run is None:
        return None
    return read_progress(run.folder)


def _read_what_is_in_use(project: Project) -> InUse | None:
    """Return what the last report put into use; None without one that can be read."""
    from engine.core.errors import EngineError

    # Without a readable report, the states of the stages say why.
    with suppress(EngineError):
        report = project.report()
        return InUse(
            report.in_use,
            report.fusion_method,
            float(report.fusion.get("weight", 0.5)),
        )
    return None


def _is_ready_to_train(stages: Sequence[StageState]) -> bool:
    """Return whether training is the next stage; if earlier stages are due, it would start over."""
    from engine.project.stage import ORDER

    before = ORDER[: ORDER.index("train")]
    return all(stage.state == "done" for stage in stages if stage.stage in before)


def _find_resume_point(project: Project) -> ResumePoint | None:
    """Return where the training would resume; None if there is none to resume."""
    from engine.core.errors import EngineError
    from engine.project.stage import ProjectSnapshot
    from engine.runs.progress import find_resume_point

    # Without rankings, for example, there is nothing to resume.
    with closing(project.folder.store()) as store, suppress(EngineError):
        return find_resume_point(ProjectSnapshot(project.folder, project.settings(), store))
    return None


def format_status(found: Status, name: str) -> Iterator[str]:
    """Yield the lines for a terminal. File names in them may still hold control characters."""
    quoted = quote_argument(name)
    if found.running:
        yield f"{found.project}  (running)"
    else:
        yield str(found.project)
    counts = []
    for key, count in found.counts.items():
        label = STATE_WORDS.get(key, key.replace("_", " "))
        counts.append(f"{label}: {count:,}")
    yield " · ".join(counts)
    if found.progress:
        yield from _format_progress(found.progress, quoted)
    yield from _format_stages(found, quoted)
    stale = [stage.stage for stage in found.stages if stage.state == "stale" and not stage.code]
    if stale and not found.running and not found.broken_off:
        yield f"  {format_refresh_advice(stale, name)}"
    if found.in_use:
        yield from _format_in_use(found.in_use)
    yield from _format_last_run(found, quoted)
    yield from _format_sweep(found, quoted)
    yield from _format_unread(
        "skipped",
        found.skipped,
        quoted,
    )
    yield from _format_unread(
        STATE_WORDS["quarantined"],
        found.quarantined,
        quoted,
    )


def _format_last_run(status: Status, quoted: str) -> Iterator[str]:
    """Yield lines on a run that failed or was interrupted, and on a training to resume."""
    last = status.latest_run
    if last and not status.running and last.state == "failed":
        error = ""
        if last.error:
            error = str(last.error).replace("\n", " ")
        yield f"  The last run failed. {error}"
    if last and status.broken_off:
        how = "stopped" if last.state == "cancelled" else "interrupted"
        place = ", ".join(_describe_place(status.broken_off))
        yield f"  The last run was {how} ({place}). {status.to_resume}"
    point = status.resumes_at
    if point:
        line = f"  Training would resume at step {point.step} of {point.steps}"
        if not status.broken_off:  # else `to_resume` has the command
            line += f": engine train {quoted}"
        yield line


def _format_sweep(status: Status, quoted: str) -> Iterator[str]:
    """Yield lines on a study or sweep that is running or was stopped."""
    if status.sweep:
        done = f"{format_count(status.sweep['finished'], 'cell')} finished"
        if status.sweep["running"]:
            yield f"  A study or sweep is running, {done}."
        else:
            yield f"  A study or sweep was stopped, {done}; the same command resumes it."
    if status.sweep_progress:
        yield from _format_progress(status.sweep_progress, quoted)


def _format_stages(status: Status, quoted: str) -> Iterator[str]:
    """Yield a line for each stage.

    In a project that is only searched, one line stands for all stages of an adaptation.
    """
    unused = _find_unused_stages(status)
    for stage in status.stages:
        if stage.stage in unused:
            continue
        state = stage.state
        reason = stage.reason
        if status.progress and status.progress.stage == stage.stage:
            state = "running"
            reason = ""
        elif status.broken_off and status.broken_off.stage == stage.stage and state != "done":
            state = "begun"
            reason = ""
        yield f"  {stage.stage:<9} {state:<7} {reason}".rstrip()
    if unused:
        yield f"  {'adapt':<9} not used ('engine adapt {quoted}' adapts the encoder)"


def _find_unused_stages(status: Status) -> set[str]:
    """Return the stages of an adaptation, if none of them was ever begun."""
    from engine.project.stage import SEARCH

    adaptation = [stage for stage in status.stages if stage.stage not in SEARCH]
    has_begun = any(stage.state != "to do" for stage in adaptation)
    if has_begun or status.progress or status.broken_off:
        return set()
    return {stage.stage for stage in adaptation}


def format_refresh_advice(stale: Sequence[str], name: str) -> str:
    """Return a clause with the command that brings stages up to date, to begin a sentence."""
    from engine.project.stage import SEARCH

    command = "run" if set(stale) <= set(SEARCH) else "adapt"
    return f"'engine {command} {quote_argument(name)}' brings them up to date"


def _format_in_use(in_use: InUse) -> Iterator[str]:
    """Yield a line for each search mode: its encoder, why, and for hybrid search the fusion."""
    from engine.evaluation.gate.sentences import label_of_encoder

    for mode, chosen in in_use.encoders.items():
        encoder = f"{label_of_encoder(chosen.name)}{STANDINGS[chosen.standing]}"
        line = f"  in use    {mode} search: {encoder}"
        if mode == "hybrid" and in_use.fusion == "rrf":
            line += " · keywords and meaning by rank (RRF)"
        elif mode == "hybrid":
            line += f" · {1 - in_use.weight:.0%} keywords, {in_use.weight:.0%} meaning"
        yield line


def _describe_place(progress: RunProgress) -> list[str]:
    """Return the stage, and how far it is if that is known."""
    place = [progress.stage or "before its first stage"]
    if progress.total:
        place.append(f"{progress.done:,} of {progress.total:,} {progress.unit}")
    return place


def _format_progress(progress: RunProgress, quoted: str) -> Iterator[str]:
    """Yield lines on where a run is, and whether it is paused."""
    from engine.core.text import duration

    parts = _describe_place(progress)
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    if progress.seconds_left:
        parts.append(f"about {duration(progress.seconds_left)} left")
    yield "  now       " + ", ".join(parts)
    if progress.paused:
        state = "pauses at its next safe point"
        if progress.paused == "waiting":
            state = "paused"
        yield f"  {state}; to continue: engine resume {quoted}"


def _format_unread(
    state: str,
    files: Mapping[str, str],
    quoted: str,
) -> Iterator[str]:
    """Yield a line for each of the first files in a state, and how many more there are."""
    for path, reason in list(files.items())[:FILES_SHOWN]:
        yield f"  {state:<10} {path}: {reason}"
    more = len(files) - FILES_SHOWN
    if more > 0:
        yield f"  … and {more} more {state} (engine documents {quoted} --state {state} lists all)"
