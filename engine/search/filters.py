"""Filters by path glob, file type, author, tag, language and date, and counts by these."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, dropwhile
from typing import TYPE_CHECKING
from unicodedata import normalize

from engine.core.errors import UsageError, unknown_name
from engine.core.messages.search import MAX_FACETS
from engine.core.records import Document
from engine.core.text import day
from engine.corpus.scan.formats import FORMATS, PICTURES, STREAMED, ending_of
from engine.lexical.languages import SAME_AS, STEMMERS, UNKNOWN

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_DIRECT = re.compile(r"/?(?:(.*[^/])/)?\./?")
HERE = "."
"""Last part of a path glob that matches only the files directly in a folder: `contracts/./`."""
UNKNOWN_LANGUAGE = "unknown"
"""Name for the language of documents whose language is not known."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Conditions that a hit must meet; an empty field lets everything pass.

    `paths`: globs, of which one must match (`contracts/**`; `contracts/./` for the files directly
        in a folder).
    `formats`: file types such as `md`. Other endings of a type mean the same (`htm` for `html`);
        `zip` and `mbox` mean the files inside.
    `authors`: texts, of which one must be part of the author's name, in any case; a text in double
        quotes must be the whole name.
    `tags`: tags, of which the document must have one, in any case; `project` also means
        `project/alpha`.
    `languages`: codes such as `en`, or `unknown`.
    `after` (inclusive), `before` (exclusive): seconds since the epoch, compared with the date that
        a document states, otherwise with that of its file.
    """

    paths: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    after: float | None = None
    before: float | None = None
    authors: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether every document passes."""
        return self == SearchFilter()

    def allowed(
        self,
        documents: Iterable[Document],
        holders: Callable[[], Container[tuple[str, str]]] = frozenset,
    ) -> set[int]:
        """Return the ids of the documents that pass.

        `holders` returns the archives and mailboxes, as (source, path). It is called only if one of
        these types is a condition, as a folder may be named like an archive. Raises UsageError for
        a malformed glob.
        """
        matches = path_filter(self.paths)
        formats = {resolve_format(text) for text in self.formats}
        languages = {resolve_language(text) for text in self.languages}
        containers: Container[tuple[str, str]] = frozenset()
        if formats & STREAMED:
            containers = holders()

        def passes(document: Document) -> bool:
            if not matches(document.path):
                return False
            if formats and formats.isdisjoint(_formats_of(document, containers)):
                return False
            if languages and resolve_language(document.language) not in languages:
                return False
            if self.tags and not any(_has_tag(document, tag) for tag in self.tags):
                return False
            return self._has_author(document) and self._has_date(document)

        return {document.id for document in documents if passes(document)}

    def _has_author(self, document: Document) -> bool:
        if not self.authors:
            return True
        return any(_is_author(author, document.author) for author in self.authors)

    def _has_date(self, document: Document) -> bool:
        date = date_of(document)
        if self.after is not None and date < self.after:
            return False
        return self.before is None or date < self.before


def resolve_format(text: str) -> str:
    """Return the format that a file type means: `.HTM` → `html`."""
    ending = f".{text.lower().lstrip('.')}"
    return FORMATS.get(ending) or PICTURES.get(ending) or ending[1:]


def unknown_formats(wanted: Iterable[str], documents: Iterable[Document]) -> list[str]:
    """Return the file types that no document has and that the engine does not read."""
    known = {*FORMATS.values(), *PICTURES.values(), *(document.format for document in documents)}
    return [text for text in wanted if resolve_format(text) not in known]


def unknown_format(wanted: Iterable[str], documents: Iterable[Document]) -> UsageError | None:
    """Return an error about the first of the `unknown_formats`, or None if all are known."""
    formats = unknown_formats(wanted, documents)
    if not formats:
        return None
    valid = sorted(ending[1:] for ending in (*FORMATS, *PICTURES))
    return unknown_name("file type", formats[0], valid, code="type-unknown")


def resolve_language(text: str) -> str:
    """Return the code that documents carry for a language.

    `en-GB` → `en`, `German` → `de`, `unknown` → `und`.
    """
    code = re.split("[-_]", text.strip().lower())[0]
    if code == UNKNOWN_LANGUAGE:
        code = UNKNOWN
    for known, name in STEMMERS.items():
        if name == code:
            return known
    return SAME_AS.get(code, code)


def languages_of_no_document(wanted: Iterable[str], documents: Iterable[Document]) -> list[str]:
    """Return the languages that no document is in."""
    known = {resolve_language(document.language) for document in documents}
    return [text for text in wanted if resolve_language(text) not in known]


def find_unmet(where: SearchFilter, documents: Iterable[Document]) -> list[str]:
    """Return a sentence about each condition of a filter that no document meets."""
    documents = list(documents)
    problems = [
        f"No document has the file type '{text}'."
        for text in unknown_formats(where.formats, documents)
    ]
    names = {_name_language(document.language or UNKNOWN) for document in documents}
    available = ", ".join(sorted(names))
    problems += [
        f"No document is in the language '{language}'; their languages: {available}."
        for language in languages_of_no_document(where.languages, documents)
    ]
    for author in where.authors:
        if not any(_is_author(author, document.author) for document in documents):
            problems.append(f"No document is by '{author}'.")
    for tag in where.tags:
        if not any(_has_tag(document, tag) for document in documents):
            problems.append(f"No document has the tag '{tag}'.")
    for glob in where.paths:
        matches = path_filter((glob,))
        if not any(matches(document.path) for document in documents):
            problems.append(f"No path matches '{glob}'.")
    dates = [date_of(document) for document in documents]
    if where.after is not None and max(dates, default=-math.inf) < where.after:
        problems.append(f"No document is dated {day(where.after)} or later.")
    if where.before is not None and min(dates, default=math.inf) >= where.before:
        problems.append(f"No document is dated before {day(where.before)}.")
    return problems


def _formats_of(document: Document, holders: Container[tuple[str, str]]) -> set[str]:
    """Return the format of a document and of each archive or mailbox that contains it.

    `holders` are the outermost ones; an archive inside one of them counts by its ending.
    """
    folders = document.path.split("/")[:-1]
    parents = accumulate(folders, "{}/{}".format)
    inside = dropwhile(lambda path: (document.source, path) not in holders, parents)
    formats = {FORMATS.get(ending_of(path), "") for path in inside}
    return {document.format} | (formats & STREAMED)


def _is_author(wanted: str, author: str) -> bool:
    wanted = compose_accents(wanted).casefold()
    author = compose_accents(author).casefold()
    if len(wanted) > 2 and wanted[0] == wanted[-1] == '"':
        return wanted[1:-1] == author.replace('"', "")
    return wanted in author


def _has_tag(document: Document, wanted: str) -> bool:
    wanted = compose_accents(wanted).casefold().strip().lstrip("#")
    if not document.tags:
        return False
    for tag in compose_accents(document.tags).casefold().split(", "):
        if tag == wanted or tag.startswith(f"{wanted}/"):
            return True
    return False


def compose_accents(text: str) -> str:
    """Return a text with each accented letter as one character (NFC).

    macOS decomposes the names of files, while keyboards type composed letters.
    """
    if text.isascii():
        return text
    return normalize("NFC", text)


def date_of(document: Document) -> float:
    """Return when a document was changed or created, as it states itself, or else its file."""
    if document.changed is not None:
        return document.changed
    if document.created is not None:
        return document.created
    return document.modified


def facets(documents: Iterable[Document]) -> dict[str, dict[str, int]]:
    """Count documents by type, author, tag, language, year and folder.

    The `MAX_FACETS` most frequent values of each, the most frequent first. Folders are those of the
    outermost level at which the documents differ; `contracts/.` counts the files directly in it.
    """
    documents = list(documents)
    authors = [compose_accents(document.author) for document in documents if document.author]
    languages = [_name_language(document.language) for document in documents if document.language]
    counts = {
        "type": Counter(document.format for document in documents),
        "author": Counter(authors),
        "tag": _count_tags(documents),
        "language": Counter(languages),
        "year": Counter(map(_year, documents)),
        "folder": _count_folders(
            [compose_accents(document.path).split("/")[:-1] for document in documents]
        ),
    }
    return {facet: dict(counter.most_common(MAX_FACETS)) for facet, counter in counts.items()}


def _name_language(code: str) -> str:
    if SAME_AS.get(code, code) == UNKNOWN:
        return UNKNOWN_LANGUAGE
    return code


def _year(document: Document) -> str:
    """Return the year of a document's date, in the user's time zone."""
    seconds = max(-6e10, min(date_of(document), 2e11))
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    return f"{moment.astimezone():%Y}"


def _count_tags(documents: list[Document]) -> Counter[str]:
    """Count documents by tag; tags that differ only in case count as one, as written first."""
    counter: Counter[str] = Counter()
    names: dict[str, str] = {}
    for document in documents:
        if document.tags:
            for tag in compose_accents(document.tags).split(", "):
                counter[names.setdefault(tag.casefold(), tag)] += 1
    return counter


def _count_folders(folders: list[list[str]]) -> Counter[str]:
    """Count folders, each given as its names from the source on.

    They are counted by the first name at which they differ, or together if they do not differ.
    """
    shared = 0
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        shared += 1
    if all(len(folder) == shared for folder in folders):
        return Counter({"/".join(folders[0]): len(folders)} if shared else {})
    counter: Counter[str] = Counter()
    for folder in folders:
        if len(folder) > shared:
            counter["/".join(folder[: shared + 1])] += 1
        else:
            counter["/".join([*folder, HERE])] += 1
    return counter


def path_filter(globs: Iterable[str]) -> Callable[[str], bool]:
    """Return a test of whether a path matches one of the globs; without globs, every path does.

    Globs are those of a .gitignore, except that a leading `#` or `!` is plain text, and that
    brackets also match themselves. A last part `.` matches the files directly in a folder. Raises
    UsageError for a malformed glob.
    """
    plain: list[str] = []
    direct: list[tuple[GitIgnoreSpec, int]] = []
    for glob in map(compose_accents, globs):
        match = _DIRECT.fullmatch(glob)
        if match is None:
            plain.append(glob)
        elif match[1]:
            direct.append((_compile_globs([f"/{match[1]}/*"]), match[1].count("/") + 1))
        else:
            direct.append((_compile_globs(["/*"]), 0))
    if not plain and not direct:
        return lambda _path: True
    anywhere = _compile_globs(plain)

    def matches(path: str) -> bool:
        depth = path.count("/")
        path = compose_accents(path)
        if anywhere.match_file(path):
            return True
        return any(depth == level and spec.match_file(path) for spec, level in direct)

    return matches


def _compile_globs(globs: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    patterns = [f"\\{glob}" if glob.startswith(("#", "!")) else glob for glob in globs]
    with_brackets = [glob for glob in patterns if "[" in glob]
    literal = [re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", glob) for glob in with_brackets]
    try:
        GitIgnoreSpec.from_lines(patterns)
        return GitIgnoreSpec.from_lines([*patterns, *literal])
    except (ValueError, re.error) as error:
        raise UsageError(
            "A path filter is not a valid glob.",
            str(error),
            "Use patterns such as 'contracts/**' or '*.md'.",
            code="pattern-invalid",
        ) from None


def parse_date(text: str) -> float:
    """Return the seconds since the epoch of `YYYY-MM-DD`, in local time. Raises UsageError."""
    try:
        moment = datetime.fromisoformat(text)
        # The conversion to UTC rejects moments that cannot be represented there.
        return moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        to_do = "Write it as YYYY-MM-DD, such as 2031-04-30."
        raise UsageError(f"'{text}' is not a date.", "", to_do, code="date-invalid") from None
