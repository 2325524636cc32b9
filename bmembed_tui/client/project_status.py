"""The steps of the wizard, the stages that belong to each, and the state of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bmembed_tui.client.run_state import RunState
from engine.core.messages.project import ProjectStatus


@dataclass(frozen=True)
class Step:
    """A step of the wizard, with the engine's stages that it stands for, in order."""

    key: str
    title: str  # as users see it
    stages: tuple[str, ...] = ()


STEPS = (
    Step("documents", "Documents", ("ingest",)),
    Step("model", "Encoder"),
    Step("queries", "Queries", ("generate",)),
    Step("index", "Index", ("index", "rank")),
    Step("train", "Train", ("train",)),
    Step("result", "Evaluate", ("evaluate",)),
    Step("search", "Search", ("embed",)),
)
STAGES = (
    "ingest",
    "index",
    "generate",
    "rank",
    "train",
    "evaluate",
    "embed",
)
SEARCH = ("ingest", "index", "embed")
"""The stages that make documents searchable."""


def find_step(stage: str) -> str:
    """Return the key of the step that a stage belongs to."""
    return next((step.key for step in STEPS if stage in step.stages), "documents")


def format_step_titles(stages: Iterable[str]) -> str:
    """Return the titles of the stages' steps, each once: `Documents, Index`."""
    titles: dict[str, None] = {}
    for stage in stages:
        titles |= dict.fromkeys(step.title for step in STEPS if stage in step.stages)
    return ", ".join(titles)


def format_current_step(run: RunState) -> str:
    """Return the title of the step that a run is at."""
    return format_step_titles([run.current]) or "starting"


def find_step_state(
    step: Step, status: ProjectStatus, run: RunState, seen: frozenset[str] = frozenset()
) -> str:
    """Return the state of a step for the sidebar.

    One of done, running, paused, failed, stale, to do, none (generation kept no query) or keywords
    (search has only keywords yet); empty while the status is not known. The encoder has no stage:
    its step is done when the user has been there, or the encoder was used. `seen`: the keys of the
    steps that the user has been to and left.
    """
    if not status.stages:
        return ""
    if run.current in step.stages and (status.running or _is_current_stage_running(run)):
        return "paused" if run.paused else "running"
    runs = [run.stages[stage] for stage in step.stages if stage in run.stages]
    has_failed = any(stage_run.state == "failed" for stage_run in runs)
    if has_failed and not status.done(*step.stages):
        return "failed"
    if step.key == "model":
        was_used = status.built("generate") or status.built("embed")
        return "done" if step.key in seen or was_used else "to do"
    if step.key == "search":
        return _find_search_state(status)
    if step.key == "queries" and status.done("generate") and status.counts.get("queries") == 0:
        return "none"
    if step.key == "index" and status.built("index") and not status.built("rank"):
        return _find_keyword_state(status)
    states = {status.state(stage) for stage in step.stages}
    if states == {"done"}:
        return "done"
    if "to do" in states:
        return "to do"
    return "stale"


def _find_search_state(status: ProjectStatus) -> str:
    """Return done or stale for semantic search; before it is built, the state of keyword search."""
    if status.done("embed"):
        return "done"
    if status.built("embed"):
        return "stale"
    return _find_keyword_state(status)


def _find_keyword_state(status: ProjectStatus) -> str:
    """Return `keywords` if there is a keyword index, else `to do`."""
    return "keywords" if status.built("index") else "to do"


def _is_current_stage_running(run: RunState) -> bool:
    """Return whether the run's own events say that its current stage is running.

    They are ahead of the status, which takes a while to read.
    """
    return run.running and run.current in run.stages and run.stages[run.current].state == "running"
