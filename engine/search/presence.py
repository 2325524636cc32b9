"""Whether the files of what was found are still as they were read: between two runs they may be
deleted or change.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR

from engine.core.records import Document

_LATER = 2.0  # seconds that clocks of file systems differ by


@dataclass(slots=True)
class Presence:
    """What the disk says of the documents that one search finds; `project`: the folder that
    sources are relative to.

    A file counts as gone only where its source is there and holds anything: a drive that is not
    mounted loses nothing.
    """

    project: Path
    gone: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    _reached: dict[str, bool] = field(default_factory=dict)

    def has(self, document: Document) -> bool:
        """Whether the file of a document is there, or cannot be reached."""
        # rows of a set; a name that is not UTF-8
        if document.format == "beir" or "\\" in document.path:
            return True
        state = self._state(self.project / document.source, document.path)
        if state is None:
            if not self._reaches(document.source):
                return True
            self.gone.add(document.id)
            return False
        if state.st_mtime > document.modified + _LATER:
            self.changed.add(document.id)
        return True

    def _state(self, source: Path, path: str) -> os.stat_result | None:
        """That of a file, or of the one that it lies in; None where there is none."""
        parts = path.split("/")
        for count in range(len(parts), 0, -1):
            try:
                state = source.joinpath(*parts[:count]).stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError):
                return os.stat_result((0,) * 10)
            if S_ISDIR(state.st_mode) and count < len(parts):
                return None
            return state
        return None

    def _reaches(self, source: str) -> bool:
        if source not in self._reached:
            try:
                with os.scandir(self.project / source) as entries:
                    self._reached[source] = any(True for _ in entries)
            except OSError:
                self._reached[source] = False
        return self._reached[source]

    def notes(self, argument: str) -> list[str]:
        """What was left out, and what may be out of date; `argument`: how a command names the
        project.
        """
        notes = []
        if count := len(self.gone):
            notes.append(
                f"{_documents(count)} left out:"
                f" {'its file is' if count == 1 else 'their files are'} gone."
            )
        if count := len(self.changed):
            notes.append(
                f"{_documents(count)} found as {'it was' if count == 1 else 'they were'} before a"
                " change of the file."
            )
        if notes:
            return [*notes, f"'engine run {argument}' reads what is there now."]
        return []


def _documents(count: int) -> str:
    if count == 1:
        return "1 document is"
    return f"{count:,} documents are"
