"""A project: its state, files and settings, and what the machine can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.core.errors import EngineError
from engine.core.messages.wire import Request
from engine.core.text import format_files_and_size


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run's folder, and what its run.json says."""

    run: str
    folder: Path
    state: str = ""  # running, done, failed or cancelled.
    pid: int | None = None
    time: float | None = None  # Of the `state`, in seconds since the epoch.
    error: EngineError | None = None


STAGE_WORDS = {
    "ingest": "Reading the documents",
    "index": "Building the keyword index",
    "generate": "Making training queries",
    "rank": "Ranking by keyword",
    "train": "Training",
    "evaluate": "Comparing search before and after",
    "embed": "Embedding",
}
"""Stage → what it does, for users."""
UP_TO_DATE = "up to date"
"""The `reason` of a stage that is done, unless it has a note of its own."""


@dataclass(frozen=True, slots=True)
class StageState:
    """The state of a stage, and the reason for it."""

    stage: str
    state: str  # done, stale or to do.
    reason: str
    code: str = ""  # That of the error, if an error is the reason.
    fingerprint: str = ""  # Of the artifact that a run would build now.


@dataclass(frozen=True)
class ProjectStatus:
    """The state of a project: the newest run, counts, and every stage."""

    project: str = ""
    name: str = ""
    running: bool = False  # Whether a run is in progress.
    run: RunRecord | None = None  # The newest run.
    counts: dict[str, int] = field(default_factory=dict)
    stages: tuple[StageState, ...] = ()
    problem: EngineError | None = None  # Why some of this could not be determined.
    asks_server: bool = False  # Whether semantic search sends queries to a server.

    def stage(self, name: str) -> StageState:
        """Return a stage; to do if nothing is known about it."""
        for stage in self.stages:
            if stage.stage == name:
                return stage
        return StageState(name, "to do", "")

    def state(self, stage: str) -> str:
        """Return done, stale or to do."""
        return self.stage(stage).state

    def done(self, *stages: str) -> bool:
        """Return whether all these stages are up to date."""
        return all(self.state(stage) == "done" for stage in stages)

    def built(self, stage: str) -> bool:
        """Return whether a stage has a result, up to date or not."""
        return self.state(stage) in ("done", "stale")


@dataclass(frozen=True)
class ReadStatus(Request[ProjectStatus], method="status"):
    """Return the state of the project."""


@dataclass(frozen=True, slots=True)
class StageChange:
    """A stage whose state a change of settings would change."""

    stage: str
    before: str  # Its state now; empty if unknown.
    after: str
    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change of settings would do; `problem`: why it is refused."""

    stages: tuple[StageChange, ...] = ()
    problem: EngineError | None = None

    @property
    def makes_stale(self) -> bool:
        """Whether a stage that is up to date would become stale."""
        return any(stage.before == "done" for stage in self.stages)


@dataclass(frozen=True)
class WhatIf(Request[Effect], method="what_if"):
    """Tell which stages would change their state with these settings ("section.key" → value).

    Nothing is written.
    """

    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """All settings after a change, by section and key."""

    settings: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class ChangeSettings(Request[ChangedSettings], method="change"):
    """Write changes to project.toml ("section.key" → value); null restores the default."""

    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SettingsFound:
    """All settings of a project."""

    settings: dict[str, dict[str, Any]]  # Section → key → value.
    set: tuple[str, ...]  # Names of the keys that project.toml sets, such as `search.top`.
    preset: dict[str, Any]  # Values of the preset for training keys that are null.


@dataclass(frozen=True)
class ReadSettings(Request[SettingsFound], method="settings"):
    """Return the settings."""


@dataclass(frozen=True, slots=True)
class SettingKey:
    """A key of project.toml, and what it may be set to.

    The bounds of a list are those of its items.
    """

    name: str
    help: str
    kind: str  # text, integer, number, flag, choice, texts, numbers or choices.
    choices: tuple[str, ...]
    default: Any
    optional: bool  # It may have no value.
    common: bool = False  # People often change it.
    least: float | None = None
    most: float | None = None
    least_open: bool = False  # `least` itself is not allowed.
    most_open: bool = False  # `most` itself is not allowed.


@dataclass(frozen=True, slots=True)
class SettingSection:
    """A section of project.toml."""

    name: str
    help: str
    keys: tuple[SettingKey, ...]


@dataclass(frozen=True, slots=True)
class SettingsSchema:
    """Every section and key of project.toml."""

    sections: tuple[SettingSection, ...]


@dataclass(frozen=True)
class ReadSchema(Request[SettingsSchema], method="schema"):
    """Return what may be set."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `engine doctor` checked."""

    topic: str
    state: str  # good, note, problem, or absent (for optional things).
    found: str  # What there is.
    follows: str  # What that means for the user, or what to do.
    code: str = ""  # Of a problem that programs react to.


@dataclass(frozen=True, slots=True)
class Findings:
    """What this machine and a model can do."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Examine(Request[Findings], method="doctor"):
    """Examine the machine.

    `model`: a model folder, instead of the project's own.
    """

    model: str | None = None


@dataclass(frozen=True, slots=True)
class ExportNote:
    """What to know about an export: the fact, and what to do or what was measured."""

    code: str
    what: str
    to_do: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A complete export in `folder`."""

    folder: Path
    kinds: tuple[str, ...]
    with_text: tuple[str, ...]  # Those of `kinds` that contain words of the documents.
    files: int  # Number of files written.
    bytes: int
    left_out: dict[str, str] = field(default_factory=dict)  # Kind → why it is missing.
    notes: tuple[ExportNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundled:
    """A project as one file.

    Of an encrypted bundle whose password is not known, `files`, `search_only`, `project` and
    `created` are None or empty.
    """

    file: Path
    bytes: int  # Size of the file.
    sha256: str  # The digest that the file ends with.
    encrypted: bool
    files: int | None = None  # Number of files in it.
    search_only: bool | None = None  # It contains only what search reads.
    notes: tuple[ExportNote, ...] = ()
    project: str = ""
    created: str = ""  # ISO 8601.


@dataclass(frozen=True, slots=True)
class Unbundled:
    """The project made from a bundle, with its number of files and bytes."""

    folder: Path
    files: int
    bytes: int
    search_only: bool
    notes: tuple[ExportNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """Something of the project that was deleted, with its number of files and bytes."""

    what: str
    path: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A place outside the project that may hold its text; the program does not touch it."""

    what: str
    why: str
    path: str = ""
    found: bool = False  # It exists for certain; otherwise it may exist.


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed and what it left."""

    project: str
    removed: tuple[Removed, ...]
    kept: tuple[str, ...]  # Files in the project's folder that this program did not make.
    elsewhere: tuple[Elsewhere, ...]  # Other places that may hold text of the documents.

    def lines(self) -> Iterator[str]:
        """Yield what was removed, what was kept, and where else text may be, line by line."""
        yield f"Deleted from {self.project}:"
        for removed in self.removed:
            if removed.files:
                size = format_files_and_size(removed.files, removed.bytes)
                yield f"  {removed.path}: {removed.what} ({size})"
        if self.kept:
            yield f"Kept there, because this program did not make it: {', '.join(self.kept)}"
        yield "Not deleted:"
        yield from self._list_elsewhere(found=True)
        yield "May also hold text of the documents, which cannot be checked:"
        yield from self._list_elsewhere(found=False)

    def _list_elsewhere(self, *, found: bool) -> Iterator[str]:
        """Yield a line for each place that exists for certain or, with `found=False`, may exist."""
        for place in self.elsewhere:
            if place.found is found:
                path = f": {place.path}" if place.path else ""
                yield f"  {place.what}{path}. {place.why}"
