"""The steps of the wizard, the stages that belong to each, and how far each is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bmembed_tui.client.run_state import RunState
from engine.core.messages.project import ProjectStatus


@dataclass(frozen=True)
class Step:
    """One step of the wizard. `stages`: the engine's stages that it stands for, in order."""

    key: str
    title: str
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
STAGES = ("ingest", "index", "generate", "rank", "train", "evaluate", "embed")
SEARCH = ("ingest", "index", "embed")
"""What makes documents searchable."""


def step_of(stage: str) -> str:
    """The key of the step that a stage belongs to."""
    return next((step.key for step in STEPS if stage in step.stages), "documents")


def titles(stages: Iterable[str]) -> str:
    """The steps of some stages as the sidebar calls them, each once: `Documents, Index`."""
    return ", ".join(
        dict.fromkeys(step.title for stage in stages for step in STEPS if stage in step.stages)
    )


def at_work(run: RunState) -> str:
    """What a run does now, as the sidebar calls it."""
    return titles([run.current]) or "starting"


def step_state(
    step: Step, status: ProjectStatus, run: RunState, seen: frozenset[str] = frozenset()
) -> str:
    """What the sidebar shows: done, running, paused, failed, stale, to do, none where generation
    kept no query, or keywords where search knows no others yet.

    Empty while nothing is known. The encoder has no stage: it is done when the user has been there,
    or it was used.
    """
    if not status.stages:
        return ""
    if run.current in step.stages and (status.running or _at_work(run)):
        return "paused" if run.paused else "running"
    if any(
        run.stages[stage].state == "failed" for stage in step.stages if stage in run.stages
    ) and not status.done(*step.stages):
        return "failed"
    if step.key == "model":
        if step.key in seen or status.built("generate") or status.built("embed"):
            return "done"
        return "to do"
    if step.key == "search":
        return _search_state(status)
    if step.key == "queries" and status.done("generate") and status.counts.get("queries") == 0:
        return "none"
    if step.key == "index" and status.built("index") and not status.built("rank"):
        return _by_keywords(status)
    states = {status.state(stage) for stage in step.stages}
    if states == {"done"}:
        return "done"
    if "to do" in states:
        return "to do"
    return "stale"


def _search_state(status: ProjectStatus) -> str:
    if status.done("embed"):
        return "done"
    if status.built("embed"):
        return "stale"
    return _by_keywords(status)


def _by_keywords(status: ProjectStatus) -> str:
    return "keywords" if status.built("index") else "to do"


def _at_work(run: RunState) -> bool:
    """Whether the run's own events say that its stage goes on: they are ahead of the status,
    which takes a while to ask for.
    """
    return run.running and run.current in run.stages and run.stages[run.current].state == "running"
