"""A project: how far it is, its files and settings, and what the machine can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.core.errors import EngineError
from engine.core.messages.wire import Request
from engine.core.text import amount


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What run.json says of a run, and the run's folder.

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
    """`state`: done, stale or to do, because of `reason`.

    `code`: that of an error, where the reason is one. `fingerprint`: of what a run would build now.
    """

    stage: str
    state: str
    reason: str
    code: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class ProjectStatus:
    """Whether a run goes on, the newest run, counts, and every stage; `problem` where something
    of it is not known. `asks_server`: whether search by meaning sends queries to a server.
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
        """A stage; to do where nothing is known of it."""
        return next(
            (one for one in self.stages if one.stage == name), StageState(name, "to do", "")
        )

    def state(self, stage: str) -> str:
        """done, stale or to do."""
        return self.stage(stage).state

    def done(self, *stages: str) -> bool:
        """Whether all these stages are up to date."""
        return all(self.state(stage) == "done" for stage in stages)

    def built(self, stage: str) -> bool:
        """Whether a stage has a result, up to date or not."""
        return self.state(stage) in ("done", "stale")


@dataclass(frozen=True)
class ReadStatus(Request[ProjectStatus], method="status"):
    """How far the project is."""


@dataclass(frozen=True, slots=True)
class StageChange:
    """A stage whose state a change of settings changes.

    `before` is empty where that is not known.
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
        """Whether a stage that is up to date would not be so any more."""
        return any(stage.before == "done" for stage in self.stages)


@dataclass(frozen=True)
class WhatIf(Request[Effect], method="what_if"):
    """Which stages would change their state if settings, by "section.key", were changed so.

    Nothing is written.
    """

    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """All settings as they are after a change, by section and key."""

    settings: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class ChangeSettings(Request[ChangedSettings], method="change"):
    """Write changes to project.toml, by "section.key"; null goes back to the default."""

    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SettingsFound:
    """All settings; `set`: the keys that project.toml sets; `preset`: what holds where a
    training key is null.
    """

    settings: dict[str, dict[str, Any]]
    set: tuple[str, ...]
    preset: dict[str, Any]


@dataclass(frozen=True)
class ReadSettings(Request[SettingsFound], method="settings"):
    """What is set."""


@dataclass(frozen=True, slots=True)
class SettingKey:
    """A key of project.toml.

    `kind`: text, integer, number, flag, choice, texts, numbers or choices. `common`: people change
    it.

    `least` and `most` of a list are those of its items; `least_open` and `most_open` say that the
    bound itself is not allowed.
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
    """What may be set."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `engine doctor` looked at.

    `state`: good, note, problem, or absent for what can be done without.

    `follows`: what it means for the user. `code`: of a problem that programs know.
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
    """Examine the machine. `model`: a model folder, instead of the project's own."""

    model: str | None = None


@dataclass(frozen=True, slots=True)
class ExportNote:
    """What to know of an export: what is so, and what to do."""

    code: str
    what: str
    to_do: str


@dataclass(frozen=True, slots=True)
class Exported:
    """`folder` is complete; `kinds` are in it, `with_text` are those of them that hold words of
    the documents; `left_out`: kind → why it is not in it. `files` and `bytes` count what was
    written.
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

    `sha256`: the digest that it ends with; `search_only`: nothing but what search reads is in it.
    `files` and that are None where the content has a password that is not known; then the
    `project`'s name and the time at which the bundle was `created` (ISO 8601) are empty.
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
    """The project that was made of a bundle, with its number of files and bytes."""

    folder: Path
    files: int
    bytes: int
    search_only: bool
    notes: tuple[ExportNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """Something of the project that is gone, with its number of files and bytes."""

    what: str
    path: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A place that the program does not touch. `found`: it is there for certain, else it may be."""

    what: str
    why: str
    path: str = ""
    found: bool = False


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge has removed, what of the project's folder it has left, and what else may hold
    text.
    """

    project: str
    removed: tuple[Removed, ...]
    kept: tuple[str, ...]
    elsewhere: tuple[Elsewhere, ...]

    def lines(self) -> Iterator[str]:
        """What was removed, what was kept, and where else text of the documents may be, a line
        each.
        """
        yield f"Deleted from {self.project}:"
        yield from (
            f"  {one.path}: {one.what} ({amount(one.files, one.bytes)})"
            for one in self.removed
            if one.files
        )
        if self.kept:
            yield f"Kept there, because this program did not make it: {', '.join(self.kept)}"
        for found, title in (
            (True, "Not deleted:"),
            (False, "May also hold text of the documents, which cannot be checked:"),
        ):
            yield title
            places = (one for one in self.elsewhere if one.found is found)
            yield from (f"  {one.what}{one.path and f': {one.path}'}. {one.why}" for one in places)
