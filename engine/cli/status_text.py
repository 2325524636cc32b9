"""What `engine status PROJECT` shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.messages.documents import STATE_WORDS
from engine.core.messages.project import RunRecord, StageState
from engine.core.messages.report import SearchMode, Standing
from engine.project.store.artifact_info import InUseInfo
from engine.runs.progress import ResumePoint, RunProgress

if TYPE_CHECKING:
    from engine.api import Project

FILES_SHOWN = 10  # of each state
STANDINGS: Mapping[Standing, str] = {
    "proved": ", proved on your documents",
    "expected": ", because it helped on public collections; not yet proved on your documents",
    "base": "",
}


@dataclass(frozen=True)
class InUse:
    """What the last evaluation let into use: an encoder for each search mode, and how hybrid
    search fuses it with BM25 (`rrf`, or `weighted` with a `weight` of the semantic score).
    """

    encoders: Mapping[SearchMode, InUseInfo]
    fusion: str
    weight: float


@dataclass(frozen=True)
class Status:
    """How far every stage is, what is in the project, how the run does that goes on.

    Its fields are the keys of `--json`.

    `in_use` is None before the first evaluation, `progress` where no run goes on, `resumes_at`
    where no training waits to be resumed, `broken_off` where the last run was not stopped or killed
    (else how far it was, and `to_resume` says what to do), `sweep`
    (engine.experiments.study.workspace.unfinished) and `sweep_progress` where no sweep goes on.
    """

    project: Path
    running: bool
    counts: Mapping[str, int]
    stages: Sequence[StageState]
    latest_run: RunRecord | None = None
    progress: RunProgress | None = None
    sweep: Mapping[str, Any] | None = None
    sweep_progress: RunProgress | None = None
    resumes_at: ResumePoint | None = None
    in_use: InUse | None = None
    broken_off: RunProgress | None = None
    to_resume: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)


def status_of(project: Project) -> Status:
    """The status now."""
    from engine.core.errors import EngineError
    from engine.experiments.study.workspace import sweeping, unfinished
    from engine.project.control import latest_run, running, stages_of
    from engine.project.stage import SEARCH
    from engine.runs.pipeline import how_to_resume
    from engine.runs.progress import progress_of

    current = None
    is_running = False
    sweep = None
    in_sweep = None
    with suppress(EngineError):  # a disk that cannot be written to: no run goes on there
        current = running(project.folder)
        is_running = project.folder.is_running()
        sweep = unfinished(project.folder)
        if sweep and sweep["running"]:
            in_sweep = running(sweeping(project.folder))
        else:
            in_sweep = None
    stages = project.status()
    last = latest_run(project.folder)
    # of one that was killed, run.json says "running" for ever
    if last and not is_running and last.state in ("running", "cancelled"):
        broken = last
    else:
        broken = None
    return Status(
        project.path,
        is_running,
        project.counts(),
        stages,
        last,
        progress_of(current.folder) if current else None,
        sweep,
        progress_of(in_sweep.folder) if in_sweep else None,
        _resumes_at(project) if current is None and _is_ready_to_train(stages) else None,
        _in_use(project),
        progress_of(broken.folder) if broken else None,
        how_to_resume(project.folder, stages_of(broken.folder) or SEARCH) if broken else "",
        project.skipped(),
        project.quarantined(),
    )


def _in_use(project: Project) -> InUse | None:
    from engine.core.errors import EngineError

    # not evaluated yet, or a report that cannot be read: the stages say so
    with suppress(EngineError):
        found = project.report()
        return InUse(found.in_use, found.fusion_method, float(found.fusion.get("weight", 0.5)))
    return None


def _is_ready_to_train(stages: Sequence[StageState]) -> bool:
    """Whether the training comes next: queries that are made anew make another training."""
    from engine.project.stage import ORDER

    before = ORDER[: ORDER.index("train")]
    return all(one.state == "done" for one in stages if one.stage in before)


def _resumes_at(project: Project) -> ResumePoint | None:
    from engine.core.errors import EngineError
    from engine.project.stage import ProjectSnapshot
    from engine.runs.progress import resume_point

    with closing(project.folder.store()) as store:
        # such as rankings that are not there yet: nothing to resume, then
        with suppress(EngineError):
            return resume_point(ProjectSnapshot(project.folder, project.settings(), store))
        return None


def as_text(found: Status, name: str) -> Iterator[str]:
    """The lines for a terminal. File names in them are not made harmless yet."""
    quoted = shlex.quote(name)
    yield str(found.project) + ("  (running)" if found.running else "")
    counts = {
        STATE_WORDS.get(name, name.replace("_", " ")): count for name, count in found.counts.items()
    }
    yield " · ".join(f"{name}: {count:,}" for name, count in counts.items())
    if found.progress:
        yield from _progress(found.progress, quoted)
    yield from _format_stages(found, quoted)
    stale = [one.stage for one in found.stages if one.state == "stale" and not one.code]
    if stale and not found.running and not found.broken_off:
        yield f"  {to_refresh(stale, name)}"
    if found.in_use:
        yield from _format_in_use(found.in_use)
    if not found.running and (last := found.latest_run) and last.state == "failed":
        yield "  The last run failed. " + (str(last.error).replace("\n", " ") if last.error else "")
    if found.broken_off and found.latest_run:
        if found.latest_run.state == "cancelled":
            how = "stopped"
        else:
            how = "interrupted"
        yield f"  The last run was {how} ({', '.join(_place(found.broken_off))}). {found.to_resume}"
    if point := found.resumes_at:
        if found.broken_off:
            command = ""
        else:
            command = f": engine train {quoted}"
        yield f"  Training would resume at step {point.step} of {point.steps}{command}"
    if found.sweep:
        done = (
            f"{found.sweep['finished']} cell{'' if found.sweep['finished'] == 1 else 's'} finished"
        )
        resumes = f"  A study or sweep was stopped, {done}; the same command resumes it."
        yield f"  A study or sweep is running, {done}." if found.sweep["running"] else resumes
    if found.sweep_progress:
        yield from _progress(found.sweep_progress, quoted)
    yield from _unread("skipped", found.skipped, quoted)
    yield from _unread(STATE_WORDS["quarantined"], found.quarantined, quoted)


def _format_stages(found: Status, quoted: str) -> Iterator[str]:
    """A line for each stage; one for all of an adaptation where the project is only searched."""
    unused = _unused_stages(found)
    at_work, begun = (one.stage if one else "" for one in (found.progress, found.broken_off))
    for stage in found.stages:
        if stage.stage in unused:
            continue
        state = stage.state
        if stage.stage == at_work:
            state = "running"
        elif stage.stage == begun and state != "done":
            state = "begun"
        yield (
            f"  {stage.stage:<9} {state:<7} {stage.reason if state == stage.state else ''}".rstrip()
        )
    if unused:
        yield f"  {'adapt':<9} not used ('engine adapt {quoted}' adapts the encoder)"


def _unused_stages(found: Status) -> set[str]:
    """The stages of an adaptation in a project that is only searched, where none of them was
    ever begun.
    """
    from engine.project.stage import SEARCH

    of_adaptation = [stage for stage in found.stages if stage.stage not in SEARCH]
    is_begun = (
        found.progress or found.broken_off or any(stage.state != "to do" for stage in of_adaptation)
    )
    if is_begun:
        return set()
    return {stage.stage for stage in of_adaptation}


def to_refresh(stale: Sequence[str], name: str) -> str:
    """The command that brings stages up to date."""
    from engine.project.stage import SEARCH

    return (
        f"'engine {'run' if set(stale) <= set(SEARCH) else 'adapt'} {shlex.quote(name)}' brings"
        " them up to date"
    )


def _format_in_use(in_use: InUse) -> Iterator[str]:
    """A line for each search mode."""
    from engine.evaluation.gate_words import label_of_encoder

    share = f"{1 - in_use.weight:.0%} keywords, {in_use.weight:.0%} meaning"
    if in_use.fusion == "rrf":
        fusion = "keywords and meaning by rank (RRF)"
    else:
        fusion = share
    for mode, chosen in in_use.encoders.items():
        how = f" · {fusion}" if mode == "hybrid" else ""
        yield (
            f"  in use    {mode} search:"
            f" {label_of_encoder(chosen.name)}{STANDINGS[chosen.standing]}{how}"
        )


def _place(progress: RunProgress) -> list[str]:
    where = [progress.stage or "before its first stage"]
    if progress.total:
        return [*where, f"{progress.done:,} of {progress.total:,} {progress.unit}"]
    return where


def _progress(progress: RunProgress, quoted: str) -> Iterator[str]:
    from engine.core.text import duration

    parts = _place(progress)
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    if progress.seconds_left is not None:
        parts.append(f"about {duration(progress.seconds_left)} left")
    yield "  now       " + ", ".join(parts)
    if progress.paused:
        if progress.paused == "waiting":
            state = "paused"
        else:
            state = "pauses at its next safe point"
        yield f"  {state}; to continue: engine resume {quoted}"


def _unread(state: str, files: Mapping[str, str], quoted: str) -> Iterator[str]:
    for path, reason in list(files.items())[:FILES_SHOWN]:
        yield f"  {state:<10} {path}: {reason}"
    if (more := len(files) - FILES_SHOWN) > 0:
        yield f"  … and {more} more {state} (engine documents {quoted} --state {state} lists all)"
