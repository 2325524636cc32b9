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
    """What run.json says about a run, and the run's folder.

    `state`: running, done, failed or cancelled.
    """

    run: str
    folder: Path
    state: str = ""
    pid: int | None = None
    time: float | None = None
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
"""What stages do, in words."""
UP_TO_DATE = "up to date"
"""The reason of a stage that is done and has nothing to add."""


@dataclass(frozen=True, slots=True)
class StageState:
    """The state of a stage: done, stale or to do, because of `reason`.

    `code`: that of an error, if the reason is one. `fingerprint`: of what a run would build now.
    """

    stage: str
    state: str
    reason: str
    code: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class ProjectStatus:
    """The state of a project: the newest run, counts, and every stage.

    `running`: whether a run is in progress. `problem`: set if something is not known.
    `asks_server`: whether semantic search sends queries to a server.
    """

    project: str = ""
    name: str = ""
    running: bool = False
    run: RunRecord | None = None
    counts: dict[str, int] = field(default_factory=dict)
    stages: tuple[StageState, ...] = ()
    problem: EngineError | None = None
    asks_server: bool = False

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
    """A stage whose state a change of settings would change.

    `before`: empty if unknown.
    """

    stage: str
    before: str
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
    """All settings.

    `set`: the keys that project.toml sets. `preset`: what holds for training keys that are null.
    """

    settings: dict[str, dict[str, Any]]
    set: tuple[str, ...]
    preset: dict[str, Any]


@dataclass(frozen=True)
class ReadSettings(Request[SettingsFound], method="settings"):
    """Return the settings."""


@dataclass(frozen=True, slots=True)
class SettingKey:
    """A key of project.toml.

    `kind`: text, integer, number, flag, choice, texts, numbers or choices. `common`: people change
    it. `least` and `most`: of a list, those of its items. `least_open` and `most_open`: the bound
    itself is not allowed.
    """

    name: str
    help: str
    kind: str
    choices: tuple[str, ...]
    default: Any
    optional: bool
    common: bool = False
    least: float | None = None
    most: float | None = None
    least_open: bool = False
    most_open: bool = False


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
    """One thing that `engine doctor` checked.

    `state`: good, note, problem, or absent (for optional things). `found`: what it is. `follows`:
    what it means for the user. `code`: of a problem that programs know.
    """

    topic: str
    state: str
    found: str
    follows: str
    code: str = ""


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
    """What to know about an export: the fact, and what to do."""

    code: str
    what: str
    to_do: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A complete export in `folder`.

    `with_text`: those of its `kinds` that contain words of the documents. `left_out`: kind → why it
    is missing. `files` and `bytes`: what was written.
    """

    folder: Path
    kinds: tuple[str, ...]
    with_text: tuple[str, ...]
    files: int
    bytes: int
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[ExportNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundled:
    """A project as one file.

    `sha256`: the digest that it ends with. `search_only`: it contains only what search reads.
    `files` and `search_only` are None, and `project` and `created` (ISO 8601) empty, if the
    password is not known.
    """

    file: Path
    bytes: int
    sha256: str
    encrypted: bool
    files: int | None = None
    search_only: bool | None = None
    notes: tuple[ExportNote, ...] = ()
    project: str = ""
    created: str = ""


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
    """A place that the program does not touch.

    `found`: it exists for certain; otherwise it may exist.
    """

    what: str
    why: str
    path: str = ""
    found: bool = False


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed, what it left in the project's folder, and what else may hold text."""

    project: str
    removed: tuple[Removed, ...]
    kept: tuple[str, ...]
    elsewhere: tuple[Elsewhere, ...]

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
        for place in self.elsewhere:
            if place.found is found:
                path = f": {place.path}" if place.path else ""
                yield f"  {place.what}{path}. {place.why}"
