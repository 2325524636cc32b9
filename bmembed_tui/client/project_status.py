"""Where a project stands, and the steps of the wizard that its stages belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bmembed_tui.client.run_state import RunState


@dataclass(frozen=True)
class Step:
    """One step of the wizard. `stages`: the engine's stages that it stands for, in order."""

    key: str
    title: str
    stages: tuple[str, ...] = ()


STEPS = (
    Step("documents", "Documents", ("ingest",)),
    Step("model", "Model"),
    Step("queries", "Queries", ("generate",)),
    Step("index", "Index", ("index", "rank")),
    Step("train", "Train", ("train",)),
    Step("result", "Result", ("evaluate", "embed")),
    Step("search", "Search"),
)
STAGES = ("ingest", "index", "generate", "rank", "train", "evaluate", "embed")


def step_of(stage: str) -> str:
    """The key of the step that a stage belongs to."""
    return next((step.key for step in STEPS if stage in step.stages), "documents")


@dataclass(frozen=True)
class StageStatus:
    """A stage as the engine tells it. `state`: done, stale or to do."""

    stage: str
    state: str
    reason: str


@dataclass(frozen=True)
class ProjectStatus:
    """The answer to the request `status`."""

    project: str = ""
    name: str = ""
    running: bool = False
    run: Mapping[str, Any] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, StageStatus] = field(default_factory=dict)
    problem: Mapping[str, str] | None = None

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> ProjectStatus:
        """From the engine's JSON."""
        stages = {
            stage["stage"]: StageStatus(stage["stage"], stage["state"], stage["reason"]) for stage in answer["stages"]
        }
        return cls(
            str(answer["project"]), str(answer["name"]), bool(answer["running"]), answer.get("run"),
            answer["counts"], stages, answer.get("problem"),
        )  # fmt: skip

    def state(self, stage: str) -> str:
        """done, stale or to do."""
        return self.stages[stage].state if stage in self.stages else "to do"

    def done(self, *stages: str) -> bool:
        """Whether all these stages are up to date."""
        return all(self.state(stage) == "done" for stage in stages)

    def built(self, stage: str) -> bool:
        """Whether a stage has a result, up to date or not."""
        return self.state(stage) in ("done", "stale")


def step_state(step: Step, status: ProjectStatus, run: RunState, seen: frozenset[str] = frozenset()) -> str:
    """What the sidebar shows: done, running, paused, failed, stale, to do, none where generation kept no query, or BM25 where
    search has only that yet.

    Empty while nothing is known. The model has no stage: it is done when the user has been there, or queries were made.
    """
    if not status.stages:
        return ""
    if run.current in step.stages and (status.running or _at_work(run)):
        return "paused" if run.paused else "running"
    if any(run.stages[stage].state == "failed" for stage in step.stages if stage in run.stages) and not status.done(
        *step.stages
    ):
        return "failed"
    if step.key == "model":
        return "done" if step.key in seen or status.built("generate") else "to do"
    if step.key == "search":
        return "done" if status.built("embed") else "BM25" if status.built("index") else "to do"
    if step.key == "queries" and status.done("generate") and status.counts.get("queries") == 0:
        return "none"
    states = {status.state(stage) for stage in step.stages}
    return "done" if states == {"done"} else "to do" if "to do" in states else "stale"


def _at_work(run: RunState) -> bool:
    """Whether the run's own events say that its stage goes on: they are ahead of the status, which takes a while to ask for."""
    return run.running and run.current in run.stages and run.stages[run.current].state == "running"
