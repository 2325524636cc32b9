"""Every error a user can meet: what happened, why, and what to do next.

Exit codes: 0 done, 1 internal fault, 2 wrong use or settings, 3 bad input, 4 project busy, 5 stage failed,
6 out of disk or memory, 7 damaged project, 130 cancelled.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable

FAULTS_TOLD = 10  # of a chain of exceptions


class EngineError(Exception):
    """Base of all expected errors. `what` happened, `why`, and what `to_do` next, each one plain sentence."""

    exit_code = 5

    def __init__(self, what: str, why: str = "", to_do: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.to_do = what, why, to_do

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.to_do) if part)

    def as_dict(self) -> dict[str, str]:
        """For the event log and `--json` output."""
        return {"type": type(self).__name__, "what": self.what, "why": self.why, "to_do": self.to_do}


class UsageError(EngineError):
    """A command or setting that cannot be followed as written."""

    exit_code = 2


class SettingsError(UsageError):
    """project.toml is not valid."""


class InputError(EngineError):
    """The user's documents, queries or judgments cannot be used."""

    exit_code = 3


class NoDocumentsError(InputError):
    """No readable document was found."""


class TooLittleTextError(InputError):
    """The corpus is too small for the step that was asked for."""


class ModelError(InputError):
    """A model folder is missing, incomplete or unsafe."""


class DatasetError(InputError):
    """A BEIR folder, query file or judgment file is malformed."""


class ProjectBusyError(EngineError):
    """Another run holds the project."""

    exit_code = 4


class StageError(EngineError):
    """A stage ended without its result."""

    exit_code = 5


class ResourceError(EngineError):
    """The disk is full or memory ran out."""

    exit_code = 6


class DamagedError(EngineError):
    """A file of the project is damaged."""

    exit_code = 7


class NotBuiltError(EngineError):
    """Something is asked for that no run has built yet."""

    exit_code = 3


class CancelledError(EngineError):
    """The user asked the run to stop; everything finished so far is kept."""

    exit_code = 130


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word closest to a mistyped one, or None when nothing is near."""
    spellings = {name.lower(): name for name in valid}
    close = difflib.get_close_matches(word.lower(), list(spellings), n=1, cutoff=0.5)
    return spellings[close[0]] if close else None


def fault_record(error: BaseException) -> str:
    """A traceback for the log. Messages of exceptions may quote a document: they are left out unless BMEMBED_LOG_TEXT=1."""
    if os.environ.get("BMEMBED_LOG_TEXT") == "1":
        return "".join(traceback.format_exception(error))
    parts: list[str] = []
    link: BaseException | None = error
    while link is not None and len(parts) < FAULTS_TOLD:
        frames = "".join(traceback.format_tb(link.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{type(link).__name__} (its message is left out)\n")
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\n".join(reversed(parts))
