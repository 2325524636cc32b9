"""Filters by path glob, file type, author, language and date; and how many of the found
documents have each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING
from unicodedata import normalize

from engine.core.errors import UsageError, unknown
from engine.core.messages.search import MAX_FACETS
from engine.core.records import Document
from engine.core.text import day
from engine.corpus.scan.formats import FORMATS, PICTURES, STREAMED, ending_of
from engine.lexical.languages import SAME_AS, STEMMERS, UNKNOWN

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_DIRECT = re.compile(r"/?(?:(.*[^/])/)?\./?")
HERE = "."
"""What stands for the files that lie in a folder itself, and not in one within: `contracts/./`."""
UNKNOWN_LANGUAGE = "unknown"
"""What documents in no language that is known are called."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a hit must satisfy; empty fields let everything pass.

    `paths`: globs of which one must match (`contracts/**`; `contracts/./` for what lies directly
        there).
    `formats`: `md`, `html` …; other endings of such files mean the same (`htm`), and `zip` or
        `mbox` what lies in one.
    `authors`: words of which one must stand in the author's name, whatever its case; one in double
        quotes must be the whole of
    it. `languages`: codes such as `en`, or `unknown`. `after` (inclusive) and `before` (exclusive):
    seconds since the epoch, of the date that a document gives itself, else of its file's.
    """

    paths: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    after: float | None = None
    before: float | None = None
    authors: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything passes."""
        return self == SearchFilter()

    def allowed(
        self,
        documents: Iterable[Document],
        holders: Callable[[], Container[tuple[str, str]]] = frozenset,
    ) -> set[int]:
        """Ids of the documents that pass.

        `holders` gives the archives and mailboxes, as (source, path), where one of these types is
        wanted: a folder may be named like one. Raises UsageError for a malformed glob.
        """
        matches = path_filter(self.paths)
        formats = {format_named(text) for text in self.formats}
        languages = {language_named(text) for text in self.languages}
        if formats & STREAMED:
            known = holders()
        else:
            known = frozenset[tuple[str, str]]()
        return {
            document.id
            for document in documents
            if matches(document.path)
            and (not formats or not formats.isdisjoint(_formats_of(document, known)))
            and (
                not self.authors or any(_is_author(text, document.author) for text in self.authors)
            )
            and (not languages or language_named(document.language) in languages)
            and (self.after is None or date_of(document) >= self.after)
            and (self.before is None or date_of(document) < self.before)
        }


def format_named(text: str) -> str:
    """The format that a file type means: `.HTM` → `html`."""
    ending = f".{text.lower().lstrip('.')}"
    return FORMATS.get(ending) or PICTURES.get(ending) or ending[1:]


def unknown_formats(wanted: Iterable[str], documents: Iterable[Document]) -> list[str]:
    """Those file types that no document has, and that nothing is read from either."""
    known = {*FORMATS.values(), *PICTURES.values(), *(document.format for document in documents)}
    return [text for text in wanted if format_named(text) not in known]


def unknown_format(wanted: Iterable[str], documents: Iterable[Document]) -> UsageError | None:
    """The error of the first of these; None where there is none."""
    valid = sorted(ending[1:] for ending in (*FORMATS, *PICTURES))
    errors = (
        unknown("file type", one, valid, code="type-unknown")
        for one in unknown_formats(wanted, documents)
    )
    return next(errors, None)


def language_named(text: str) -> str:
    """The code of a language as documents have it: `en-GB` → `en`, `German` → `de`, `unknown` →
    `und`.
    """
    code = re.split("[-_]", text.strip().lower())[0]
    code = UNKNOWN if code == UNKNOWN_LANGUAGE else code
    return next(
        (known for known, name in STEMMERS.items() if name == code), SAME_AS.get(code, code)
    )


def languages_of_no_document(wanted: Iterable[str], documents: Iterable[Document]) -> list[str]:
    """Those languages that no document is in."""
    known = {language_named(document.language) for document in documents}
    return [text for text in wanted if language_named(text) not in known]


def unmet(where: SearchFilter, documents: Iterable[Document]) -> list[str]:
    """What a filter asks for that no document has, a sentence each."""
    known = list(documents)
    problems = [
        f"No document has the file type '{one}'." for one in unknown_formats(where.formats, known)
    ]
    there = ", ".join(sorted({_language_shown(document.language or UNKNOWN) for document in known}))
    missing = languages_of_no_document(where.languages, known)
    problems += [
        f"No document is in the language '{one}'; their languages: {there}." for one in missing
    ]
    for one in where.authors:
        if not any(_is_author(one, document.author) for document in known):
            problems.append(f"No document is by '{one}'.")
    for one in where.paths:
        matches = path_filter((one,))
        if not any(matches(document.path) for document in known):
            problems.append(f"No path matches '{one}'.")
    if where.after is not None and not any(date_of(document) >= where.after for document in known):
        problems.append(f"No document is dated {day(where.after)} or later.")
    if where.before is not None and not any(date_of(document) < where.before for document in known):
        problems.append(f"No document is dated before {day(where.before)}.")
    return problems


def _formats_of(document: Document, holders: Container[tuple[str, str]]) -> set[str]:
    """Its own, and those of the archives and mailboxes that it lies in: `holders`, and what lies
    in one of them.
    """
    names = document.path.split("/")[:-1]
    places = ("/".join(names[: at + 1]) for at in range(len(names)))
    inside = dropwhile(lambda place: (document.source, place) not in holders, places)
    return {document.format} | ({FORMATS.get(ending_of(place), "") for place in inside} & STREAMED)


def _is_author(wanted: str, author: str) -> bool:
    wanted = composed(wanted).casefold()
    author = composed(author).casefold()
    if len(wanted) > 2 and wanted[0] == wanted[-1] == '"':
        return wanted[1:-1] == author.replace('"', "")
    return wanted in author


def composed(text: str) -> str:
    """A text with letters and their marks as one sign each: macOS writes names of files apart,
    keyboards together.
    """
    if text.isascii():
        return text
    return normalize("NFC", text)


def date_of(document: Document) -> float:
    """When a document was last changed or made, as it says itself, else its file."""
    return next(
        (date for date in (document.changed, document.created) if date is not None),
        document.modified,
    )


def facets(documents: Iterable[Document]) -> dict[str, dict[str, int]]:
    """How many documents have each type, author, language and year, and lie in each folder, the
    outermost in which they differ (`contracts/.`: in that itself, and in none within); the most
    frequent first, `MAX_FACETS` of each.
    """
    listed = list(documents)
    counts = {
        "type": Counter(document.format for document in listed),
        "author": Counter(composed(document.author) for document in listed if document.author),
        "language": Counter(
            _language_shown(document.language) for document in listed if document.language
        ),
        "year": Counter(map(_year, listed)),
        "folder": _folders([composed(document.path).split("/")[:-1] for document in listed]),
    }
    return {name: dict(found.most_common(MAX_FACETS)) for name, found in counts.items()}


def _language_shown(code: str) -> str:
    if SAME_AS.get(code, code) == UNKNOWN:
        return UNKNOWN_LANGUAGE
    return code


def _year(document: Document) -> str:
    """The year of a document's date, where the user lives."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(
        seconds=max(-6e10, min(date_of(document), 2e11))
    )
    return f"{moment.astimezone():%Y}"


def _folders(paths: list[list[str]]) -> Counter[str]:
    """How many of these folders, each the names from the source on, lie in each of the first
    ones that differ; else in the one.
    """
    shared = sum(
        1 for _ in takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    )
    if not any(len(path) > shared for path in paths):
        return Counter({"/".join(paths[0]): len(paths)} if shared else {})
    return Counter(
        "/".join((path[: shared + 1]) if len(path) > shared else [*path, HERE]) for path in paths
    )


def path_filter(globs: Iterable[str]) -> Callable[[str], bool]:
    """Whether a path matches one of these globs; every path does where there are none.

    Raises UsageError.

    Signs that stand for something else in a .gitignore alone, `#` and `!` at the beginning, mean
    themselves; brackets also do. A last part `.` means what lies directly in a folder.
    """
    listed = list(map(composed, globs))
    direct = [found[1] or "" for glob in listed if (found := _DIRECT.fullmatch(glob))]
    spec = _spec([glob for glob in listed if not _DIRECT.fullmatch(glob)])
    within = [
        (_spec([f"/{folder}/*" if folder else "/*"]), folder.count("/") + bool(folder))
        for folder in direct
    ]
    if not listed:
        return lambda _path: True
    return lambda path: (
        spec.match_file(composed(path))
        or any(path.count("/") == depth and one.match_file(composed(path)) for one, depth in within)
    )


def _spec(globs: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    wanted = tuple(f"\\{glob}" if glob.startswith(("#", "!")) else glob for glob in globs)
    try:
        GitIgnoreSpec.from_lines(wanted)
        return GitIgnoreSpec.from_lines(
            [
                *wanted,
                *(re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", glob) for glob in wanted if "[" in glob),
            ]
        )
    except (ValueError, re.error) as error:
        raise UsageError(
            "A path filter is not a valid glob.",
            str(error),
            "Use patterns such as 'contracts/**' or '*.md'.",
            code="pattern-invalid",
        ) from None


def parse_date(text: str) -> float:
    """Seconds since the epoch of `YYYY-MM-DD` (local time). Raises UsageError."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.astimezone()).astimezone(UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        to_do = "Write it as YYYY-MM-DD, such as 2031-04-30."
        raise UsageError(f"'{text}' is not a date.", "", to_do, code="date-invalid") from None
