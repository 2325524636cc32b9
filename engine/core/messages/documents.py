"""The files of a project: which there are, and which were not read."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.messages.wire import Request

STATE_WORDS = {
    "files": "files read",
    "quarantined": "unreadable",
    "files_quarantined": "files unreadable",
    "embedded": "newly embedded",
}
"""What users call states and counts of files, where that differs from the name in the code."""


@dataclass(frozen=True, slots=True)
class FormatCount:
    """The number of files of one format, and their bytes."""

    format: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileName:
    """A file, by its source and its path there."""

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class LeftOut(FileName):
    """A file, or something inside it, that is not read, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan has found: files and bytes by format, and what would be left out."""

    formats: tuple[FormatCount, ...]
    files: int
    bytes: int
    skipped: tuple[LeftOut, ...]  # The first files that would be left out.
    skipped_total: int  # The number of all of them.
    seconds: float


@dataclass(frozen=True)
class Scan(Request[Scanned], method="scan"):
    """Count the files; the arguments replace those of project.toml."""

    paths: tuple[str, ...] | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Unread(LeftOut):
    """Something that was not read.

    `retryable`: it was tried, and can be tried again.
    """

    retryable: bool


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """What the last ingest could not read or left out: the first ones, and the numbers of all.

    `retryable`: as in `Unread`.
    """

    files: tuple[Unread, ...]
    total: int
    retryable: int


@dataclass(frozen=True)
class ReadSkipped(Request[UnreadFiles], method="skipped"):
    """List what the last ingest could not read or left out, files and parts of files."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many files the next ingest will read again."""

    forgotten: int


@dataclass(frozen=True)
class Retry(Request[Forgotten], method="retry"):
    """Let the next ingest read again what was not read completely, or the files named."""

    files: tuple[FileName, ...] | None = None


@dataclass(frozen=True, slots=True)
class FileOutcome(FileName):
    """The outcome of one file, or of something inside it (path `mail.eml/attachment.pdf`).

    What was left out without being opened has an empty format and size 0.
    """

    format: str
    size: int
    state: str
    kind: str  # Why it was left out, in a word or two (`engine.core.records.Kind`).
    reason: str
    documents: int = 0  # Number of documents made from it.


@dataclass(frozen=True, slots=True)
class FileOutcomes:
    """The outcome of every file."""

    files: tuple[FileOutcome, ...]
    total: int


@dataclass(frozen=True)
class ReadDocuments(Request[FileOutcomes], method="documents"):
    """List the outcome of every file, or of those in one state."""

    state: str | None = None
