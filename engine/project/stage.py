"""The contract of a stage: every room's `stage.py` defines one `Stage`, as `STAGE`."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.core.errors import CancelledError, NotBuiltError
from engine.core.events import Choice, Emit, Progress, Warned
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import ArtifactInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact, Info
from engine.project.store.store import Store
from engine.settings.schema import Settings

ORDER = (
    "ingest",
    "index",
    "generate",
    "rank",
    "train",
    "evaluate",
    "embed",
)
KEYWORD_STAGES = ("ingest", "index")
"""The stages that make documents searchable by keyword."""
SEARCH = (*KEYWORD_STAGES, "embed")
"""The stages that make documents searchable with the encoder in use; the others adapt it."""
PROGRESS_SECONDS = 1.0


def command_for(stage: str) -> str:
    """Return the command that brings a stage, and those it needs, up to date."""
    return "run" if stage in SEARCH else "adapt"


def not_built(project: ProjectFolder, kind: type[ArtifactInfo]) -> NotBuiltError:
    """Return the error that a project has no artifact of a kind, with the stage to run."""
    pronoun = "them" if kind.plural else "it"
    return NotBuiltError(
        f"The project {project.name} has no {kind.called} yet.",
        "",
        f"To make {pronoun}, {_how_to_run(project, kind)}",
        stage=kind.stage,
        command=command_for(kind.stage),
    )


def _how_to_run(project: ProjectFolder, kind: type[ArtifactInfo]) -> str:
    """Return the end of a sentence: to run the command that makes an artifact of that kind."""
    command = command_for(kind.stage)
    run = f"run 'engine {command} {project.argument}'"
    if command == "adapt":
        return f"{run}; with --dry-run it only says how long that takes and what it can show."
    return f"{run}."


@dataclass(frozen=True)
class ProjectSnapshot:
    """What fingerprints are computed from: the project, its settings and its database."""

    project: ProjectFolder
    settings: Settings
    store: Store

    def need(self, kind: type[Info]) -> Artifact[Info]:
        """Return the current artifact of a kind.

        Raises NotBuiltError that names the stage to run.
        """
        artifact = self.store.artifact(kind)
        if artifact is None:
            raise not_built(self.project, kind)
        if artifact.fingerprint == INCOMPLETE:
            verb = "are" if kind.plural else "is"
            raise NotBuiltError(
                f"The {kind.called} of the project {self.project.name} {verb} not complete.",
                "A run was stopped before its end.",
                f"To go on, {_how_to_run(self.project, kind)}",
                code="stage-unfinished",
                stage=kind.stage,
                command=command_for(kind.stage),
            )
        return artifact


@dataclass(frozen=True)
class StageContext(ProjectSnapshot):
    """What a running stage gets: it may emit events and must call `should_stop` at safe points.

    Code that runs a stage's work outside a run leaves `fingerprint` and `run` empty.
    """

    stage: str
    fingerprint: str = ""  # Of the artifact to build.
    run: str = ""  # The id of the run.
    emit: Emit = field(default=lambda _event: None)
    # Waits while the run is paused; then returns whether to stop.
    should_stop: Callable[[], bool] = field(default=lambda: False)
    # Whether the user wants the stage to end early with its result; only training asks.
    should_finish: Callable[[], bool] = field(default=lambda: False)
    forced: bool = False  # The user asked for the stage even if it is up to date.
    _chosen: set[tuple[str, str]] = field(default_factory=set)

    def progress(
        self,
        done: int,
        total: int,
        unit: str,
        item: str = "",
    ) -> None:
        """Report the progress of the stage."""
        self.emit(Progress(stage=self.stage, done=done, total=total, unit=unit, item=item))

    def report_choice(
        self,
        setting: str,
        value: object,
        reason: str,
    ) -> None:
        """Report an automatic choice and its reason, once."""
        if (setting, str(value)) in self._chosen:
            return
        self._chosen.add((setting, str(value)))
        self.emit(Choice(stage=self.stage, setting=setting, value=str(value), reason=reason))

    def warn(self, text: str) -> None:
        """Warn the user of something that needs a look but stops nothing."""
        self.emit(Warned(stage=self.stage, text=text))

    def check_stop(self) -> None:
        """Wait while the run is paused; raise CancelledError if the user has asked to stop."""
        if self.should_stop():
            raise CancelledError("The run was cancelled.")


class ThrottledProgress:
    """Reports progress about a hundred times in a task, and at least once a second.

    `total`: units still to do. `before`: units done already.
    """

    def __init__(
        self,
        context: StageContext,
        total: int,
        unit: str,
        before: int = 0,
    ) -> None:
        self._context = context
        self._total = total + before
        self._unit = unit
        self._before = before
        self._share = -1
        self._due = 0.0

    def __call__(self, done: int) -> None:
        """Report progress if another hundredth is done or a second has passed."""
        done += self._before
        share = 100 * done // max(1, self._total)
        now = time.monotonic()
        if share != self._share or now >= self._due:
            self._share = share
            self._due = now + PROGRESS_SECONDS
            self._context.progress(
                done,
                self._total,
                self._unit,
            )


class Stage(Protocol):
    """A step of the pipeline that brings one artifact up to date; the base class of stages."""

    artifact: type[ArtifactInfo]
    """The kind of the artifact that the stage makes."""
    version: int
    """Part of the fingerprint: a higher version invalidates existing artifacts."""
    always: bool = False
    """Whether the stage runs even when its fingerprint has not changed."""

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return all that decides what the stage builds, for its fingerprint.

        Raises NotBuiltError if an input is missing.
        """
        ...

    def run(self, context: StageContext) -> dict[str, Any]:
        """Build the artifact and make it current; return the `summary` of `StageFinished`."""
        ...

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raise, before a run begins, what would end the stage later.

        Checks settings and the files they name; fast.
        """
        return

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raise if the files of an up-to-date artifact are damaged."""
        return

    def status_note(self, snapshot: ProjectSnapshot) -> str:
        """Return what the status adds to "up to date"; empty for nothing."""
        return ""

    def is_outdated(self, snapshot: ProjectSnapshot) -> bool:
        """Return whether the program's current defaults would build the artifact differently.

        Only commands that run this stage alone rebuild it then: `engine generate`, not `engine
        adapt`.
        """
        return False

    def stale_note(self, snapshot: ProjectSnapshot) -> str:
        """Return why the artifact is stale, if a better reason than changed inputs is known."""
        return ""


def fingerprint(**parts: Any) -> str:
    """Return 16 hex digits over named JSON values, the same on every machine."""
    text = json.dumps(
        parts,
        sort_keys=True,
        ensure_ascii=False,
        default=str,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stage_fingerprint(
    stage: str,
    version: int,
    inputs: Mapping[str, Any],
) -> str:
    """Return the fingerprint of what a stage would build: its name, version and inputs."""
    return fingerprint(
        stage=stage,
        version=version,
        **inputs,
    )
