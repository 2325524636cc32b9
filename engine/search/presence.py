"""Checks that the files of hits still exist and have not changed since they were read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR

from engine.core.disk import path_exists
from engine.core.records import Document
from engine.corpus.scan.formats import list_placeholders

_CLOCK_TOLERANCE = 2.0
"""Seconds by which the clocks of file systems may differ."""
_UNKNOWN_STATUS = os.stat_result((0,) * 10)
"""Status of a file that cannot be examined. Its time is 0, so that it counts as unchanged."""


@dataclass(slots=True)
class Presence:
    """Records which documents of one search have files that are gone or have changed.

    A file counts as gone only if its source is a folder with content, so that an unmounted drive
    hides no hits.
    """

    project: Path
    """The folder that sources are relative to."""
    gone: set[int] = field(default_factory=set)
    """Ids of documents whose files are gone."""
    changed: set[int] = field(default_factory=set)
    """Ids of documents whose files are newer than what was read."""
    _reachable: dict[str, bool] = field(default_factory=dict)
    """Source → whether it is a folder with content."""

    def has(self, document: Document) -> bool:
        """Return whether the file of a document exists or cannot be checked."""
        # Stored paths have backslashes for bytes that are not UTF-8: such files cannot be checked.
        if document.is_entry or "\\" in document.path:
            return True
        status = self._read_status(self.project / document.source, document.path)
        if status is None:
            if not self._is_reachable(document.source):
                return True
            self.gone.add(document.id)
            return False
        if status.st_mtime > document.modified + _CLOCK_TOLERANCE:
            self.changed.add(document.id)
        return True

    def _read_status(self, source: Path, path: str) -> os.stat_result | None:
        """Return the status of a file, or of the archive that contains it; None if it is gone."""
        parts = path.split("/")
        # From the whole path up: a file in an archive has the archive's status.
        for count in range(len(parts), 0, -1):
            try:
                status = source.joinpath(*parts[:count]).stat()
            except (FileNotFoundError, NotADirectoryError):
                if _is_online_only(source.joinpath(*parts[:count])):
                    return _UNKNOWN_STATUS
                continue
            except (OSError, ValueError):
                return _UNKNOWN_STATUS
            if S_ISDIR(status.st_mode) and count < len(parts):
                return None  # A folder, not an archive that may contain the file.
            return status
        return None

    def _is_reachable(self, source: str) -> bool:
        """Return whether a source is a folder with content. Each source is examined once."""
        if source not in self._reachable:
            try:
                with os.scandir(self.project / source) as entries:
                    self._reachable[source] = next(entries, None) is not None
            except OSError:
                self._reachable[source] = False
        return self._reachable[source]

    def notes(self, argument: str) -> list[str]:
        """Return notes on documents that were left out or may be out of date.

        `argument`: how a command names the project.
        """
        notes = []
        gone = len(self.gone)
        if gone == 1:
            notes.append("1 document is left out: its file is gone.")
        elif gone:
            notes.append(f"{gone:,} documents are left out: their files are gone.")
        changed = len(self.changed)
        if changed == 1:
            notes.append("The file of 1 document has changed since it was read.")
        elif changed:
            notes.append(f"The files of {changed:,} documents have changed since they were read.")
        if notes:
            notes.append(f"'engine run {argument}' reads what is there now.")
        return notes


def _is_online_only(path: Path) -> bool:
    """Return whether a cloud has left a placeholder in the place of a file."""
    return any(path_exists(path.with_name(name)) for name in list_placeholders(path.name))
