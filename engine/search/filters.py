"""Filters by path glob, file type and date."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engine.errors import UsageError
from engine.records import Document


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a hit must satisfy; empty fields let everything pass.

    `paths`: globs of which one must match (`contracts/**`). `formats`: `md`, `html` …
    `after` (inclusive) and `before` (exclusive): seconds since the epoch.
    """

    paths: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    after: float | None = None
    before: float | None = None

    @property
    def empty(self) -> bool:
        """Whether everything passes."""
        return not self.paths and not self.formats and self.after is None and self.before is None

    def allowed(self, documents: Iterable[Document]) -> set[int]:
        """Ids of the documents that pass. Raises UsageError for a malformed glob."""
        matches = path_filter(self.paths)
        formats = {text.lower().lstrip(".") for text in self.formats}
        return {
            document.id
            for document in documents
            if matches(document.path)
            and (not formats or document.format in formats)
            and (self.after is None or document.modified >= self.after)
            and (self.before is None or document.modified < self.before)
        }


def path_filter(globs: Iterable[str]) -> Callable[[str], bool]:
    """Whether a path matches one of these globs; every path does where there are none. Raises UsageError."""
    from pathspec import GitIgnoreSpec

    wanted = tuple(globs)
    try:
        spec = GitIgnoreSpec.from_lines(wanted)
    except (ValueError, re.error) as error:
        raise UsageError(
            "A path filter is not a valid glob.", str(error), "Use patterns such as 'contracts/**' or '*.md'."
        ) from None
    return spec.match_file if wanted else lambda _path: True


def parse_date(text: str, *, end_of_day: bool = False) -> float:
    """Seconds since the epoch of `YYYY-MM-DD` (local time); with `end_of_day`, of the next day. Raises UsageError."""
    try:
        day = datetime.fromisoformat(text)
        if end_of_day and len(text) <= 10:
            day += timedelta(days=1)
        return (day if day.tzinfo else day.astimezone()).astimezone(UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"'{text}' is not a date.", "Dates are written as YYYY-MM-DD.", "Write for example 2031-04-30."
        ) from None
