"""Rows of the tables of files: what became of each file, and of what is inside it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of the corpus as last read. `state`: read, gone, skipped (the system did not let us read it) or
    quarantined (its content cannot be read, `kind` says in one word why); then `reason` says why.

    A skipped file has live documents only where it could be read before and the system has since refused to open it:
    `content_hash` and `chunking` then say what those were made of. `ctime_ns`: when the system last noted a change of the file,
    of its name and rights too (0: of an earlier version of the program, which did not ask).
    """

    source: str
    path: str
    format: str
    size: int
    mtime_ns: int
    content_hash: str
    state: str
    reason: str
    chunking: str
    id: int = 0
    kind: str = ""
    ctime_ns: int = 0


@dataclass(frozen=True, slots=True)
class PartRecord:
    """Something inside a file that gave no document, and why. `path` within the file; `state` and `kind` as of files."""

    path: str
    state: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOutRecord:
    """A file or folder that was not tried at all, and why: in one word, where there is one, and in a sentence."""

    source: str
    path: str
    kind: str
    reason: str
