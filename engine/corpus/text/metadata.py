"""What a document says of itself: title, author, dates as people and programs write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.text.blocks import Text

_MAX_LENGTH = 300  # characters
_NOON = 12  # a day is the same one everywhere on earth when it is stored as its noon in Greenwich
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.?"
_TIME = r"(?:[T,\s]\s*(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?)?"
_ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?(?:\s*\([A-Z]+\))?"
_FORMS = [
    re.compile(form + _TIME + _ZONE, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?:(?P<sign>[-/.])(?P<month>\d\d?)(?:(?P=sign)(?P<day>\d\d?))?)?",
        r"(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?(?P<year>\d{4})",
        rf"(?:[a-z]{{3,9}},?\s)?(?P<day>\d\d?)(?:st|nd|rd|th|\.)?[\s-]{_MONTH},?[\s-](?P<year>\d{{4}})",
        rf"(?:[a-z]{{3,9}},?\s)?{_MONTH}\s(?:(?P<day>\d\d?)(?:st|nd|rd|th)?,?\s)?(?P<year>\d{{4}})",
    )
]
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:[T;]?(\d\d)(\d\d)(\d\d)?\d{0,3})?(?=\D|$)")
_NO_TITLE = re.compile(
    r"(?:untitled|\((?:anonymous|unspecified|untitled)\)|microsoft word - .*|powerpoint.presentation|slide 1|document ?\d*)$",
    re.IGNORECASE,
)
_MAX_DATE_LENGTH = 60  # characters
_NOBODY = frozenset((
    "admin", "administrator", "anonymous", "author", "microsoft office user", "n/a", "none", "openpyxl", "owner", "python-docx",
    "unknown", "unknown author", "unnamed", "unspecified", "user", "windows user",
))  # fmt: skip
"""What programs write where nobody has given them an author's name."""


@dataclass(frozen=True, slots=True)
class Said:
    """Title and author, empty where nothing is said; dates in seconds since the epoch."""

    title: str = ""
    author: str = ""
    created: float | None = None
    changed: float | None = None


def moment(text: str) -> float | None:
    """Seconds since the epoch of a date, with a time or without: that of noon, then. Without a zone it is UTC. None for what is
    none, and for one that may be read in two ways (`3/4/2031`).
    """
    words = " ".join(text[: _MAX_DATE_LENGTH + 1].split())
    if not words or len(words) > _MAX_DATE_LENGTH:
        return None
    words = _COMPACT.sub(_spelled, words, count=1)
    for form in _FORMS:
        if found := form.fullmatch(words):
            with suppress(ValueError, OverflowError):
                return _seconds(found)
    return None


def _spelled(found: re.Match[str]) -> str:
    """`20310428T1015` → `2031-04-28 10:15`; older office programs write `20310428;10150000`."""
    year, month, day, *time = found.groups()
    clock = ":".join(filter(None, time))
    return f"{year}-{month}-{day}" + (f" {clock}" if clock else "")


def _seconds(found: re.Match[str]) -> float:
    parts = found.groupdict()
    name = parts.get("name")
    month = _MONTHS.index(name.lower()) + 1 if name else int(parts.get("month") or 1)
    hour = int(parts["hour"] or _NOON)
    time = hour, int(parts["minute"] or 0), int(parts["second"] or 0)
    return datetime(
        int(parts["year"]), month, int(parts["day"] or 1), *time, tzinfo=_zone(parts["zone"] or "Z")
    ).timestamp()


def _zone(text: str) -> timezone:
    if not text[1:].replace(":", "").isdigit():
        return UTC
    ahead = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-ahead if text[0] == "-" else ahead)


def first_moment(texts: Iterable[str]) -> float | None:
    """The first of several texts that is a date."""
    return next((found for found in map(moment, texts) if found is not None), None)


def named(authors: str) -> str:
    """Of authors with commas between, those that are somebody."""
    names = authors.split(", ")
    return ", ".join(name for name in names if name.strip(" ()[]<>").casefold() not in _NOBODY)


def joined(names: Iterable[str]) -> str:
    """Names with commas between, each once; addresses of pages are none."""
    cleaned = (" ".join(name.split()) for name in names)
    return ", ".join(dict.fromkeys(name for name in cleaned if name and "://" not in name))[:_MAX_LENGTH]


def document_of(path: Path, format: str, text: Text, metadata: Mapping[str, Any]) -> ReadDocument:
    """A document of its text and of what it says of itself: `title`, `authors`, `created_at` and `modified_at`."""
    return ReadDocument(
        title_of(metadata, text, path), text.text, text.headings, format=format, pages=text.pages,
        author=author_of(metadata), created=seconds(metadata.get("created_at")),
        changed=seconds(metadata.get("modified_at")),
    )  # fmt: skip


def title_of(metadata: Mapping[str, Any], text: Text, path: Path) -> str:
    """The title that a document gives itself, else its first heading, else the file's name."""
    own = " ".join(clean(str(metadata.get("title") or "")).split())[:_MAX_LENGTH]
    if own and not _NO_TITLE.match(own) and "\ufffd" not in own:
        return own
    sheets = bool(text.pages) and text.pages[0].name.startswith("sheet ")
    first = next((heading.title for heading in text.headings if heading.level == 1 and not sheets), "")
    return first or title_from_name(path)


def author_of(metadata: Mapping[str, Any]) -> str:
    """The authors that a document names, with commas between."""
    authors = metadata.get("authors") or ()
    names = [" ".join(clean(str(name)).split()) for name in ([authors] if isinstance(authors, str) else authors)]
    return ", ".join(filter(None, names))[:_MAX_LENGTH]


def seconds(date: Any) -> float | None:
    """Seconds since the epoch of an ISO date, UTC where it names no zone; None for anything else."""
    if not isinstance(date, str):
        return None
    try:
        moment = datetime.fromisoformat(date.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def title_from_name(path: Path) -> str:
    """`quarterly_report-2024.txt` → `Quarterly report 2024`."""
    words = clean(re.sub(r"[-_\s]+", " ", path.stem)).strip()
    return words[:1].upper() + words[1:] or path.name
