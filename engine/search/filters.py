"""Filters by path glob, file type, author, tag, language and date, and counts by these."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.core.characters import compose_accents
from engine.core.dates import day, document_date, read_day, to_local
from engine.core.errors import UsageError, nearest
from engine.core.messages.search import MAX_FACETS, Search
from engine.core.records import Document
from engine.corpus.scan.formats import FORMATS, PICTURES, STREAMED, ending_of
from engine.lexical.languages import SAME_AS, STEMMERS, UNKNOWN

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# contracts/./ or ., with the folder as its group
_DIRECT = re.compile(r"/?(?:(.*[^/])/)?\./?")
HERE = "."
"""Last part of a path glob that matches only the files directly in a folder: `contracts/./`."""
FORMATS_BY_ENDING = {**PICTURES, **FORMATS}
UNKNOWN_LANGUAGE = "unknown"
"""Name for the language of documents whose language is not known."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Conditions that a hit must meet; an empty field lets everything pass.

    Dates are seconds since the epoch. They are compared with the date that a document states,
    otherwise with that of its file.
    """

    paths: tuple[str, ...] = ()
    """Globs, of which one must match: `contracts/**`, or `contracts/./` without subfolders."""
    formats: tuple[str, ...] = ()
    """File types such as `md`; `htm` also means `html`, `zip` and `mbox` mean the files inside."""
    after: float | None = None
    """Earliest date."""
    before: float | None = None
    """The date must be earlier than this."""
    authors: tuple[str, ...] = ()
    """Texts, of which one must be part of the author's name, in any case.

    A text in double quotes must be the whole name.
    """
    languages: tuple[str, ...] = ()
    """Codes such as `en`, or `unknown`."""
    tags: tuple[str, ...] = ()
    """Tags, of which the document must have one, in any case; `project` means `project/a`, too."""

    @property
    def empty(self) -> bool:
        """Whether every document passes."""
        return self == SearchFilter()

    def allowed(
        self,
        documents: Iterable[Document],
        find_containers: Callable[[], Container[tuple[str, str]]] = frozenset,
    ) -> set[int]:
        """Return the ids of the documents that pass. See `condition`."""
        passes = self.condition(find_containers)
        return {document.id for document in documents if passes(document)}

    def condition(
        self, find_containers: Callable[[], Container[tuple[str, str]]] = frozenset
    ) -> Callable[[Document], bool]:
        """Return the test of whether a document passes.

        `find_containers` returns the archives and mailboxes, as (source, path). It is called only
        if `formats` has a type such as `zip`, to tell archives from folders named `old.zip`.
        Raises UsageError for a malformed glob.
        """
        matches = path_filter(self.paths)
        formats = {resolve_format(text) for text in self.formats}
        languages = {resolve_language(text) for text in self.languages}
        containers: Container[tuple[str, str]] = frozenset()
        if formats & STREAMED:
            containers = find_containers()

        def passes(document: Document) -> bool:
            if not matches(document.path):
                return False
            if formats and formats.isdisjoint(_find_formats(document, containers)):
                return False
            if languages and resolve_language(document.language) not in languages:
                return False
            if not self._is_tagged(document) or not self._has_author(document):
                return False
            return self._has_date(document)

        return passes

    def _is_tagged(self, document: Document) -> bool:
        """Return whether a document has one of the `tags`; true if there are no `tags`."""
        return not self.tags or any(_has_tag(document, tag) for tag in self.tags)

    def _has_author(self, document: Document) -> bool:
        """Return whether a document is by one of the `authors`; true if there are no `authors`."""
        names = self.authors
        return not names or any(_is_author(name, document.author) for name in names)

    def _has_date(self, document: Document) -> bool:
        """Return whether a document's date lies between `after` and `before`."""
        date = date_of(document)
        if self.after is not None and date < self.after:
            return False
        return self.before is None or date < self.before


def read_filter(request: Search) -> SearchFilter:
    """Return the conditions that a request sets."""
    return SearchFilter(
        request.paths or (),
        request.types or (),
        None if request.after is None else read_day(request.after),
        None if request.before is None else read_day(request.before),
        request.authors or (),
        request.languages or (),
        request.tags or (),
    )


def resolve_format(text: str) -> str:
    """Return the format that a file type means: `.HTM` → `html`."""
    name = text.lower().lstrip(".")
    return FORMATS_BY_ENDING.get(f".{name}", name)


def unknown_formats(wanted: Iterable[str], documents: Iterable[Document]) -> list[str]:
    """Return those of the `wanted` file types that no document has and the engine cannot read."""
    known = set(FORMATS_BY_ENDING.values())
    known.update(document.format for document in documents)
    return [text for text in wanted if resolve_format(text) not in known]


def unknown_format(wanted: Iterable[str], documents: Iterable[Document]) -> UsageError | None:
    """Return an error about the first of the `unknown_formats`, or None if all are known."""
    documents = list(documents)
    formats = unknown_formats(wanted, documents)
    if not formats:
        return None
    name = formats[0]
    available = ", ".join(sorted({document.format for document in documents}))
    why = f"The documents have these: {available}." if available else ""
    near = nearest(
        name,
        (ending[1:] for ending in FORMATS_BY_ENDING),
        cutoff=0.6,
    )
    to_do = f"Did you mean '{near}'?" if near else "Use the ending of the files' names."
    return UsageError(
        f"There is no file type '{name}'.",
        why,
        to_do,
        code="type-unknown",
    )


def resolve_language(text: str) -> str:
    """Return the code that documents carry for a language.

    `en-GB` → `en`, `German` → `de`, `unknown` → `und`.
    """
    code, *_ = re.split("[-_]", text.strip().lower())
    if code == UNKNOWN_LANGUAGE:
        code = UNKNOWN
    for known, name in STEMMERS.items():
        if name == code:
            return known
    return SAME_AS.get(code, code)


def find_unmet(
    where: SearchFilter,
    documents: Iterable[Document],
    find_containers: Callable[[], Container[tuple[str, str]]] = frozenset,
) -> list[str]:
    """Return a sentence about each condition of a filter that no document meets.

    `find_containers`: see `SearchFilter.condition`.
    """
    documents = list(documents)
    problems = []
    for single, problem in _split_filter(where, documents):
        if not any(map(single.condition(find_containers), documents)):
            problems.append(problem)
    return problems


def _split_filter(
    where: SearchFilter, documents: list[Document]
) -> Iterator[tuple[SearchFilter, str]]:
    """Yield each condition of a filter alone, and the sentence that no document meets it."""
    for text in where.formats:
        yield SearchFilter(formats=(text,)), f"No document has the file type '{text}'."
    names = {_name_language(document.language or UNKNOWN) for document in documents}
    available = ", ".join(sorted(names))
    for text in where.languages:
        problem = f"No document is in the language '{text}'; their languages: {available}."
        yield SearchFilter(languages=(text,)), problem
    for author in where.authors:
        yield SearchFilter(authors=(author,)), f"No document is by '{author}'."
    for tag in where.tags:
        yield SearchFilter(tags=(tag,)), f"No document has the tag '{tag}'."
    for glob in where.paths:
        yield SearchFilter(paths=(glob,)), f"No path matches '{glob}'."
    if where.after is not None:
        problem = f"No document is dated {day(where.after)} or later."
        yield SearchFilter(after=where.after), problem
    if where.before is not None:
        problem = f"No document is dated before {day(where.before)}."
        yield SearchFilter(before=where.before), problem


def _find_formats(document: Document, containers: Container[tuple[str, str]]) -> set[str]:
    """Return the format of a document and of each archive or mailbox that contains it.

    `containers` are the outermost ones; an archive inside one of them counts by its ending.
    """
    formats = {document.format}
    is_inside = False
    for parent in accumulate(document.path.split("/")[:-1], "{}/{}".format):
        is_inside = is_inside or (document.source, parent) in containers
        format = FORMATS.get(ending_of(parent), "")
        if is_inside and format in STREAMED:
            formats.add(format)
    return formats


def _is_author(wanted: str, author: str) -> bool:
    """Return whether a text is part of an author's name, or in quotes the whole of it."""
    wanted = compose_accents(wanted).casefold()
    author = compose_accents(author).casefold()
    if len(wanted) > 2 and wanted[0] == wanted[-1] == '"':
        return wanted[1:-1] == author.replace('"', "")
    return wanted in author


def _has_tag(document: Document, wanted: str) -> bool:
    """Return whether a document has a tag, or one below it: `project/alpha` for `project`."""
    wanted = compose_accents(wanted).casefold().strip().lstrip("#")
    if not document.tags:
        return False
    for tag in compose_accents(document.tags).casefold().split(", "):
        if tag == wanted or tag.startswith(f"{wanted}/"):
            return True
    return False


def date_of(document: Document) -> float:
    """Return the date that a document gives itself, else that of its file."""
    return document_date(
        document.changed,
        document.created,
        document.modified,
    )


def facets(documents: Iterable[Document]) -> dict[str, dict[str, int]]:
    """Count documents by type, author, tag, language, year and folder.

    The `MAX_FACETS` most frequent values of each, the most frequent first. Folders are those of the
    outermost level at which the documents differ; `contracts/.` counts the files directly in it.
    """
    documents = list(documents)
    authors = [compose_accents(document.author) for document in documents if document.author]
    languages = [document.language for document in documents if document.language]
    counts = {
        "type": Counter(document.format for document in documents),
        "author": Counter(authors),
        "tag": _count_tags(documents),
        "language": Counter(map(_name_language, languages)),
        "year": Counter(map(_read_year, documents)),
        "folder": _count_folders(documents),
    }
    most_frequent = {}
    for facet, counter in counts.items():
        most_frequent[facet] = dict(counter.most_common(MAX_FACETS))
    return most_frequent


def _name_language(code: str) -> str:
    """Return the name by which users filter by a language, which is its code or `unknown`."""
    if SAME_AS.get(code, code) == UNKNOWN:
        return UNKNOWN_LANGUAGE
    return code


def _read_year(document: Document) -> str:
    """Return the year of a document's date, in the user's time zone."""
    # From year 69 to 8307, which every system can convert.
    seconds = max(-6e10, min(date_of(document), 2e11))
    return f"{to_local(seconds):%Y}"


def _count_tags(documents: list[Document]) -> Counter[str]:
    """Count documents by tag.

    Tags that differ only in case count as one, spelt as in the first document.
    """
    counter: Counter[str] = Counter()
    spellings: dict[str, str] = {}
    for document in documents:
        if document.tags:
            for tag in compose_accents(document.tags).split(", "):
                first_spelling = spellings.setdefault(tag.casefold(), tag)
                counter[first_spelling] += 1
    return counter


def _count_folders(documents: list[Document]) -> Counter[str]:
    """Count documents by folder, at the outermost level at which the folders differ.

    `law/a/1` and `law/b/2` count as `law/a` and `law/b`. If all documents are in one folder, that
    folder is counted.
    """
    folders = [compose_accents(document.path).split("/")[:-1] for document in documents]
    shared = 0
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        shared += 1
    level = shared + 1
    if max(map(len, folders), default=0) == shared:
        level = shared  # no folder has a further level
    counter: Counter[str] = Counter()
    for folder in folders:
        parts = folder[:level] if len(folder) >= level else [*folder, HERE]
        if parts:
            counter["/".join(parts)] += 1
    return counter


def path_filter(globs: Iterable[str]) -> Callable[[str], bool]:
    """Return a test of whether a path matches one of the globs; without globs, every path does.

    Globs are those of a .gitignore, except that a leading `#` or `!` is plain text, and that
    brackets also match themselves. A last part `.` matches the files directly in a folder. Raises
    UsageError for a malformed glob.
    """
    plain: list[str] = []
    # Globs that end in `./`, each with the number of folders above the files that it matches.
    direct: list[tuple[GitIgnoreSpec, int]] = []
    for glob in map(compose_accents, globs):
        match = _DIRECT.fullmatch(glob)
        if match is None:
            plain.append(glob)
            continue
        folder = match[1]
        if folder:
            depth = folder.count("/") + 1
            direct.append((_compile_globs([f"/{folder}/*"]), depth))
        else:
            direct.append((_compile_globs(["/*"]), 0))
    if not plain and not direct:
        return lambda _path: True
    anywhere = _compile_globs(plain)

    def matches(path: str) -> bool:
        path_depth = path.count("/")
        path = compose_accents(path)
        if anywhere.match_file(path):
            return True
        specs = [spec for spec, depth in direct if depth == path_depth]
        return any(spec.match_file(path) for spec in specs)

    return matches


def _compile_globs(globs: Iterable[str]) -> GitIgnoreSpec:
    """Return the patterns of a .gitignore for globs.

    A glob with brackets also matches them literally: `report [1].pdf`. Raises UsageError.
    """
    from pathspec import GitIgnoreSpec

    patterns = [re.sub("^[#!]", r"\\\g<0>", glob) for glob in globs]
    with_brackets = [glob for glob in patterns if "[" in glob]
    literal = [re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", glob) for glob in with_brackets]
    try:
        return GitIgnoreSpec.from_lines([*patterns, *literal])
    except (ValueError, re.error) as error:
        raise UsageError(
            "A path filter is not a valid glob.",
            str(error),
            "Use patterns such as 'contracts/**' or '*.md'.",
            code="pattern-invalid",
        ) from None
