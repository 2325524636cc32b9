"""The title, author, dates and tags that a document states about itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.core.characters import clean, clean_line
from engine.core.records import ReadDocument
from engine.corpus.text.blocks import Text

_MAX_LENGTH = 300  # characters of a title and of a list of authors
_MAX_TAGS = 50
_MAX_TAG_LENGTH = 100  # characters; longer ones are sentences
# A day stored as its noon in Greenwich is the same day everywhere on earth.
_NOON = 12
# Titles that programs write if nobody has named the document.
_NO_TITLE = re.compile(
    r"(?:untitled|\((?:anonymous|unspecified|untitled)\)|microsoft word -"
    r" .*|powerpoint.presentation|slide 1|document ?\d*)$",
    re.IGNORECASE,
)
_MAX_DATE_LENGTH = 60  # characters
_PLACEHOLDER_NAMES = frozenset(
    (
        "admin",
        "administrator",
        "anonymous",
        "author",
        "microsoft office user",
        "n/a",
        "none",
        "openpyxl",
        "owner",
        "python-docx",
        "unknown",
        "unknown author",
        "unnamed",
        "unspecified",
        "user",
        "windows user",
    )
)
"""Names that programs write if nobody has named the author."""


@dataclass(frozen=True, slots=True)
class StatedMetadata:
    """Title, author and tags, empty if not given; dates are seconds since the epoch."""

    title: str = ""
    author: str = ""
    created: float | None = None
    changed: float | None = None
    tags: str = ""


def parse_date(text: str) -> float | None:
    """Return the seconds since the epoch of a date, at noon if it has no time.

    A date without a zone is taken as UTC. None for other texts, for dates that can be read in two
    ways (`3/4/2031`), and for dates without a year.
    """
    from dateutil.parser import parse

    words = " ".join(text[: _MAX_DATE_LENGTH + 1].split())
    if not words or len(words) > _MAX_DATE_LENGTH:
        return None
    has_dots = "." in words.partition(" ")[0]
    year_first = words[:4].isdecimal()
    readings: set[float] = set()
    with suppress(ValueError, OverflowError):
        # Two readings, which differ in what the text leaves open: the year if it names none, and
        # whether the day or the month comes first. With dots (3.4.2031) it is the day.
        for default_year, day_first in ((2000, has_dots), (2001, True)):
            noon = datetime(
                default_year,
                1,
                1,
                _NOON,
                tzinfo=UTC,
            )
            date = parse(
                words,
                default=noon,
                dayfirst=day_first and not year_first,
            )
            readings.add(date.replace(microsecond=0).timestamp())
    if len(readings) != 1:
        return None
    return readings.pop()


def parse_first_date(texts: Iterable[str]) -> float | None:
    """Return the first date among texts as seconds since the epoch, None if there is none."""
    for text in texts:
        seconds = parse_date(text)
        if seconds is not None:
            return seconds
    return None


def drop_placeholder_names(authors: str) -> str:
    """Return a list of authors, separated by commas, without `Unknown`, `admin` and the like."""
    names = []
    for name in authors.split(", "):
        if name.strip(" ()[]<>").casefold() not in _PLACEHOLDER_NAMES:
            names.append(name)
    return ", ".join(names)


def join_names(names: Iterable[str]) -> str:
    """Join names with commas, each once, without addresses of pages."""
    unique: dict[str, None] = {}
    for name in names:
        if name.strip() and "://" not in name:
            unique[" ".join(name.split())] = None
    return ", ".join(unique)[:_MAX_LENGTH]


def build_document(
    path: Path, format: str, text: Text, metadata: Mapping[str, Any]
) -> ReadDocument:
    """Build a document from its text and its metadata.

    The keys of `metadata` are `title`, `authors`, `created_at`, `modified_at` and `keywords`.
    """
    return ReadDocument(
        choose_title(metadata, text, path),
        text.text,
        text.headings,
        format=format,
        pages=text.pages,
        author=format_authors(metadata),
        created=parse_iso_date(metadata.get("created_at")),
        changed=parse_iso_date(metadata.get("modified_at")),
        tags=parse_tags(metadata.get("keywords")),
    )


def choose_title(
    metadata: Mapping[str, Any],
    text: Text,
    path: Path,
) -> str:
    """Return a document's own title, else its first heading of level 1, else the file's name."""
    title = clean_line(str(metadata.get("title") or ""))[:_MAX_LENGTH]
    if title and not _NO_TITLE.match(title) and "\ufffd" not in title:
        return title
    # The headings of a workbook are the names of its sheets.
    has_sheets = bool(text.pages) and text.pages[0].name.startswith("sheet ")
    if not has_sheets:
        first_heading = next((heading.title for heading in text.headings if heading.level == 1), "")
        if first_heading:
            return first_heading
    return title_from_name(path)


def format_authors(metadata: Mapping[str, Any]) -> str:
    """Return the authors that a document names, separated by commas."""
    authors = metadata.get("authors") or ()
    if isinstance(authors, str):
        authors = [authors]
    names = [clean_line(str(name)) for name in authors]
    return ", ".join(filter(None, names))[:_MAX_LENGTH]


def parse_tags(keywords: Any) -> str:
    """Return the tags in a text, or in a list of texts, separated by commas, each once.

    Commas, semicolons and line ends separate tags in a text. So do blanks if each tag begins with
    `#`, which is dropped.
    """
    texts = [keywords] if isinstance(keywords, str) else keywords or ()
    # The tags by their casefolded forms.
    tags: dict[str, str] = {}
    for text in texts:
        text = clean(str(text)).strip()
        separator = r"[,;\n]|\s(?=#)" if text.startswith("#") else "[,;\n]"
        for tag in re.split(separator, text):
            tag = " ".join(tag.split()).lstrip("#").strip()
            if tag and "://" not in tag and len(tag) <= _MAX_TAG_LENGTH:
                tags.setdefault(tag.casefold(), tag)
    return ", ".join(list(tags.values())[:_MAX_TAGS])


def parse_iso_date(date: Any) -> float | None:
    """Return the seconds since the epoch of an ISO date, None for anything else.

    A date without a zone is taken as UTC.
    """
    # `date` may be None, which has no `strip`.
    with suppress(ValueError, OverflowError, AttributeError):
        parsed = datetime.fromisoformat(date.strip())
        if not parsed.tzinfo:
            parsed = parsed.replace(tzinfo=UTC)
        return parsed.timestamp()
    return None


def title_from_name(path: Path) -> str:
    """Make a title from a file name: `quarterly_report-2024.txt` → `Quarterly report 2024`."""
    words = clean(re.sub(r"[-_\s]+", " ", path.stem)).strip()
    return words[:1].upper() + words[1:] or path.name
