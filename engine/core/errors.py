"""Every error a user can meet: what happened, why, and what to do next.

Exit codes: 0 done, 1 internal fault, 2 wrong use or settings, 3 bad input, 4 project busy, 5 stage
failed, 6 out of disk or memory, 7 damaged project, 130 cancelled.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Self

MAX_FAULTS = 10  # Exceptions of a chain that are logged.


class EngineError(Exception):
    """Base of all expected errors.

    `what` happened, `why`, and what `to_do` next, each one plain sentence. Programs read `code`
    (docs/ERRORS.md lists them), `stage` (the one concerned) and `command` (the `engine` command
    that helps, without its project).
    """

    exit_code = 5
    code = "failed"
    command = ""

    def __init__(
        self,
        what: str,
        why: str = "",
        to_do: str = "",
        *,
        code: str = "",
        stage: str = "",
        command: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.to_do = to_do
        self.code = code or type(self).code
        self.stage = stage
        self.command = command or type(self).command

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.to_do) if part)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that help.

        They are `command` and, if that runs several stages, the command of `stage` alone.
        """
        commands = [self.command]
        if self.command in ("run", "adapt"):
            commands.append(self.stage)
        return tuple(filter(None, commands))

    def as_dict(self) -> dict[str, str]:
        """Return the error for logs, `--json` output and other processes.

        Its `type` is the nearest base class in this module, which `from_dict` can make again.
        """
        public = next(kind for kind in type(self).__mro__ if kind.__module__ == __name__)
        return {
            "type": public.__name__,
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "to_do": self.to_do,
            "stage": self.stage,
            "command": self.command,
        }

    @staticmethod
    def from_dict(data: Mapping[str, object], exit_code: int | None = None) -> EngineError:
        """Return the error that `as_dict` gave, with the same class.

        `exit_code`: that of the process which ended with the error, if it is to be kept.
        """
        kind = globals().get(str(data.get("type")))
        if not (isinstance(kind, type) and issubclass(kind, EngineError)):
            kind = StageError
        fields = {
            name: str(data.get(name, ""))
            for name in ("what", "why", "to_do", "code", "stage", "command")
        }
        error = kind(**fields)
        if isinstance(error, SettingsError):
            line = str(data.get("line") or 0)
            error.at(key=str(data.get("key", "")), line=int(line))
        if exit_code is not None:
            error.exit_code = exit_code
        return error


class UsageError(EngineError):
    """A command or setting that cannot be followed as written."""

    exit_code = 2
    code = "wrong-use"


class SettingsError(UsageError):
    """An invalid project.toml.

    `key`: the first wrong setting, dotted. `line`: where the text is not TOML, from 1.
    """

    code = "settings-invalid"
    key = ""
    line = 0

    def as_dict(self) -> dict[str, str]:
        """Return the error with its place."""
        return {
            **super().as_dict(),
            "key": self.key,
            "line": str(self.line),
        }

    def at(self, *, key: str = "", line: int = 0) -> Self:
        """Set the place in project.toml, and return the error."""
        self.key = key
        self.line = line
        return self


class InputError(EngineError):
    """The user's documents, queries or judgments cannot be used."""

    exit_code = 3
    code = "input-invalid"


class NoDocumentsError(InputError):
    """No readable document was found."""

    code = "no-documents"


class TooLittleTextError(InputError):
    """The corpus is too small for the step that was asked for."""

    code = "too-little-text"


class ModelError(InputError):
    """A model folder is missing, incomplete or unsafe."""

    code = "model-invalid"


class DatasetError(InputError):
    """A BEIR folder, query file or judgment file is malformed."""

    code = "dataset-invalid"


class ProjectBusyError(EngineError):
    """Another run holds the project."""

    exit_code = 4
    code = "project-busy"


class StageError(EngineError):
    """A stage ended without its result."""

    code = "stage-failed"


class ResourceError(EngineError):
    """The disk is full or memory ran out."""

    exit_code = 6
    code = "out-of-resources"


class DamagedError(EngineError):
    """A file of the project is damaged."""

    exit_code = 7
    code = "damaged"

    @classmethod
    def of_stage(
        cls,
        stage: str,
        what: str,
        why: str = "",
        *,
        code: str,
    ) -> Self:
        """Return the error of a damaged result that running its stage builds again."""
        return cls(
            what,
            why,
            f"Run 'engine {stage}'.",
            code=code,
            stage=stage,
            command=stage,
        )


class NotBuiltError(EngineError):
    """Something is asked for that no run has built yet."""

    exit_code = 3
    code = "not-built"
    command = "run"


class CancelledError(EngineError):
    """The user asked the run to stop; everything finished so far is kept."""

    exit_code = 130
    code = "cancelled"


def nearest(
    word: str,
    valid: Iterable[str],
    cutoff: float = 0.5,
) -> str | None:
    """Return the valid word closest to a mistyped one; None if no similarity reaches `cutoff`.

    Similarities lie between 0 and 1 (the same).
    """
    spellings = {name.lower(): name for name in valid}
    close = difflib.get_close_matches(
        word.lower(),
        list(spellings),
        n=1,
        cutoff=cutoff,
    )
    return spellings[close[0]] if close else None


def unknown_name(
    kind: str,
    name: str,
    valid: Collection[str],
    *,
    code: str,
) -> UsageError:
    """Return the error of a name that is not one of the `valid` ones.

    `kind`: what it is a name of, such as `search mode`.
    """
    near = nearest(name, valid)
    if near:
        to_do = f"Did you mean '{near}'?"
    else:
        to_do = "Choose one of these."
    return UsageError(
        f"There is no {kind} '{name}'.", f"Valid: {', '.join(valid)}.", to_do, code=code
    )


def reason_of(error: BaseException) -> str:
    """Return an exception's message as a sentence; a system error without its number.

    Example: `No such file or directory: /data/a.txt.`
    """
    if isinstance(error, OSError) and error.strerror:
        if error.filename:
            return f"{error.strerror}: {error.filename}."
        return f"{error.strerror}."
    return f"{str(error).rstrip('.')}."


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error; its class name if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def internal_fault(
    what: str, error: BaseException, *, record: str = "", command: str = ""
) -> StageError:
    """Return the error of a fault of the program itself, such as `Training had an internal fault`.

    It says the exception's type and place but not its message, which may quote a document.
    `record`: where the whole record of it is.
    """
    if record:
        why = f"Its record is in {record}."
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{Path(frame.filename).name}, line {frame.lineno}" for frame in frames]
        why = f"It was raised in {' < '.join(reversed(places[-3:]))}."
    return StageError(
        f"{what} ({type(error).__name__}).",
        why,
        "Run again; if it happens again, report it.",
        code="internal-fault",
        command=command,
    )


def fault_record(error: BaseException) -> str:
    """Return a traceback for the log.

    Messages of exceptions may quote a document: they are left out unless BMEMBED_LOG_TEXT=1.
    """
    if os.environ.get("BMEMBED_LOG_TEXT") == "1":
        return "".join(traceback.format_exception(error))
    parts: list[str] = []
    link: BaseException | None = error
    while link is not None and len(parts) < MAX_FAULTS:
        frames = "".join(traceback.format_tb(link.__traceback__))
        parts.append(
            f"Traceback (most recent call last):\n{frames}{type(link).__name__} (its message is"
            " left out)\n"
        )
        if link.__cause__ is None and link.__suppress_context__:
            break
        link = link.__cause__ or link.__context__
    return "\n".join(reversed(parts))
