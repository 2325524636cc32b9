"""The scan, which finds the documents in the named folders."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import InputError, UsageError
from engine.core.records import Kind
from engine.corpus.scan.formats import (
    FORMATS,
    IMAGES,
    PICTURES,
    ending_of,
    format_of_head,
    is_lock_file,
    is_tnef,
    names_no_format,
)
from engine.written_queries.beir import BEIR_CORPUS, begins_corpus

if TYPE_CHECKING:
    from pathspec import PathSpec
    from pathspec.pattern import Pattern

OWN_FILES = {"project.toml", "project.db"}
_BEIR_COMPANIONS = {"queries.jsonl", "qrels"}


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file to read.

    `source` is the folder in which it was found, and `path` its readable path there with forward
    slashes. `place` is its path on the disk. It may be a string, since creating a `Path` for each
    of many files takes as long as finding them.
    """

    source: str
    path: str
    place: str | Path
    size: int
    mtime_ns: int
    format: str
    ctime_ns: int = 0

    @property
    def absolute(self) -> Path:
        """The path on the disk."""
        return Path(self.place)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is left out, with the reason in words and as a kind.

    `path` is relative to its folder, `source`.
    """

    path: str
    reason: str
    source: str = ""
    kind: Kind = ""


@dataclass(slots=True)
class Scan:
    """The result of a scan; `files` and `skipped` are sorted by path.

    `closed` holds (source, path) of files and folders that the system did not let us look at, so
    their content is unknown. `away` holds those source folders among them that were read before and
    are now empty or gone, as a drive that is not mounted looks.
    """

    files: list[ScannedFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    away: list[Skipped] = field(default_factory=list)


def scan(
    sources: Sequence[Path],
    include: Sequence[str] = ("**/*",),
    exclude: Sequence[str] = (),
    *,
    follow_links: bool = False,
    pictures: bool = False,
    read_before: Container[str] = (),
) -> Scan:
    """Find the documents under `sources` (folders or files), sorted by path.

    `include` and `exclude` are patterns as in .gitignore, matched against paths relative to the
    source; a file named as a source is always taken. Links are followed only inside their source,
    unless `follow_links` is set. A file reached in two ways counts once. In a BEIR data set,
    corpus.jsonl is the only document. With `pictures`, pictures are documents. `read_before` holds
    the sources with files that are known; if one of several sources is now empty or gone, it is
    `away`.

    Raises InputError for a missing source, and UsageError for an invalid pattern.
    """
    if [*include] == ["**/*"]:
        wanted = None
    else:
        wanted = _patterns(include)
    unwanted = _patterns(exclude)
    result = Scan()
    taken: set[str] = set()
    folders = [Path(os.path.normpath(Path(source).absolute())) for source in sources]
    away = {str(folder) for folder in folders if str(folder) in read_before and is_bare(folder)}
    if len(away) == len(set(map(str, folders))):
        away = set()
    for source, absolute in zip(sources, folders, strict=True):
        if str(absolute) in away:
            if absolute.exists():
                reason = "the folder is empty"
            else:
                reason = "the folder is not there"
            result.closed.append((str(absolute), ""))
            result.away.append(Skipped(".", reason, str(absolute), "no access"))
            continue
        if not absolute.exists():
            to_do = "Check corpus.paths in project.toml. What was read before stays searchable."
            raise InputError(
                f"{source} does not exist.", "", to_do, code="path-missing", stage="ingest"
            )
        _Walk(str(absolute), wanted, unwanted, result, taken, follow_links, pictures).run()
    result.files.sort(key=lambda file: (file.path, file.source))
    result.skipped.sort(key=lambda item: (item.path, item.source))
    return result


def is_bare(folder: Path) -> bool:
    """Tell whether a folder is empty, missing or unreadable."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return True


def _patterns(lines: Sequence[str]) -> PathSpec[Pattern]:
    import re

    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except (ValueError, TypeError, re.error) as error:
        what = "A pattern in corpus.include or corpus.exclude is not valid."
        raise UsageError(
            what, str(error), "Write it as in a .gitignore file.", code="pattern-invalid"
        ) from error


class _Walk:
    """The walk through one source.

    It visits real folders before links, so that a linked file is known by its real path.
    """

    def __init__(
        self,
        source: str,
        wanted: PathSpec[Pattern] | None,
        unwanted: PathSpec[Pattern],
        result: Scan,
        taken: set[str],
        follow_links: bool = False,
        pictures: bool = False,
    ) -> None:
        self._follow_links = follow_links
        self._formats = {**FORMATS, **PICTURES} if pictures else FORMATS
        self._source = source
        self._wanted = wanted
        self._unwanted = unwanted
        self._result = result
        self._taken = taken
        self._real = os.path.realpath(source)
        # Each folder's path in the source, and its path without links.
        self._folders: list[tuple[str, str]] = []
        self._links: deque[str] = deque()
        self._walked: set[str] = set()

    def run(self) -> None:
        """Fill the result."""
        if not Path(self._real).is_dir():
            named = Path(self._source)
            self._source = str(named.parent)
            try:
                self._take(named.name, named.stat(), self._real)
            except OSError as error:
                self._closed(named.name, error)
            return
        self._folders.append(("", self._real))
        while self._folders or self._links:
            if self._folders:
                self._walk_folder(*self._folders.pop())
            else:
                self._follow(self._links.popleft())

    def _walk_folder(self, relative: str, real: str) -> None:
        absolute = f"{self._source}/{relative}"
        if real in self._walked:
            return
        self._walked.add(real)
        try:
            with os.scandir(absolute) as entries:
                found = {entry.name: entry for entry in entries if not entry.name.startswith(".")}
        except OSError as error:
            self._closed(relative, error)
            return
        # The reports of a project hold queries, not documents.
        if found.keys() >= OWN_FILES:
            self._skip(relative, "a bmembed project", "project")
            return
        prefix = f"{relative}/" if relative else ""
        if self._is_beir(prefix, found):
            found = self._beir_only(prefix, found)
        for name, entry in sorted(found.items()):
            self._look_at(prefix + name, entry, real)

    def _look_at(self, path: str, entry: os.DirEntry[str], real_folder: str) -> None:
        try:
            if entry.is_symlink():
                self._links.append(path)
            elif entry.is_dir():
                if not self._unwanted.match_file(f"{readable_path(path)}/"):
                    self._folders.append((path, f"{real_folder}{os.sep}{entry.name}"))
            elif self._matches(path):
                self._take(path, entry.stat(), f"{real_folder}{os.sep}{entry.name}")
        except OSError as error:
            self._closed(path, error)

    def _follow(self, path: str) -> None:
        try:
            real = os.path.realpath(f"{self._source}/{path}")
            status = Path(self._source, path).stat()
        except FileNotFoundError as error:
            self._skip(path, f"broken link: {system_reason(error)}", "broken link")
            return
        except OSError as error:
            self._closed(path, error, "broken link")
            return
        try:
            self._follow_to(path, real, status)
        except OSError as error:
            self._closed(path, error)

    def _follow_to(self, path: str, real: str, status: os.stat_result) -> None:
        if not self._follow_links and os.path.commonpath([real, self._real]) != self._real:
            if self._matches(path):
                self._skip(path, "a link that leads out of the folder", "refused")
        elif stat.S_ISDIR(status.st_mode) and real not in self._walked:
            self._folders.append((path, real))
        elif self._matches(path):
            if real in self._walked:
                self._skip(path, "a link to a folder that is already included", "link")
            elif real in self._taken:
                self._skip(path, "a link to a file that is already included", "link")
            else:
                self._take(path, status, real)

    def _is_beir(self, prefix: str, found: dict[str, os.DirEntry[str]]) -> bool:
        path = prefix + BEIR_CORPUS
        wanted = BEIR_CORPUS in found and found[BEIR_CORPUS].is_file() and self._matches(path)
        return wanted and begins_corpus(Path(self._source, path))

    def _beir_only(
        self, prefix: str, found: dict[str, os.DirEntry[str]]
    ) -> dict[str, os.DirEntry[str]]:
        for name, entry in found.items():
            if (
                name != BEIR_CORPUS
                and name not in _BEIR_COMPANIONS
                and self._matches(prefix + name)
            ):
                is_document = ending_of(name) in FORMATS
                if is_document or entry.is_dir():
                    self._skip(prefix + name, f"beside a BEIR data set's {BEIR_CORPUS}", "data set")
        return {BEIR_CORPUS: found[BEIR_CORPUS]}

    def _matches(self, path: str) -> bool:
        path = readable_path(path)
        wanted = self._wanted is None or self._wanted.match_file(path)
        return wanted and not (self._unwanted.patterns and self._unwanted.match_file(path))

    def _take(self, path: str, status: os.stat_result, real: str) -> None:
        if real in self._taken:
            return
        readable = readable_path(path)
        if readable != path and os.path.lexists(f"{self._source}/{readable}"):
            self._skip(
                path,
                "the name is not valid UTF-8, and another file has the same displayed name",
                "unsupported",
            )
            return
        ending = ending_of(path)
        if not stat.S_ISREG(status.st_mode):
            self._skip(path, "not a regular file", "unsupported")
            return
        if is_lock_file(path, status.st_size):
            return
        format = self._formats.get(ending)
        if path.rpartition("/")[2] == BEIR_CORPUS and begins_corpus(Path(self._source, path)):
            format = "beir"
        if format is None and (names_no_format(ending) or is_tnef(path)) and status.st_size:
            format = _format_of(Path(self._source, path))
        if ending in IMAGES and format is None:
            if self._formats is not FORMATS:
                other = "a picture of a kind that OCR does not read"
            else:
                other = ""
            self._skip(path, other or "a picture: without OCR it holds no text", "needs OCR")
        elif format is None:
            self._skip(path, f"format not supported: {ending or 'no ending'}", "unsupported")
        else:
            self._taken.add(real)
            facts = (status.st_size, status.st_mtime_ns, format, status.st_ctime_ns)
            self._result.files.append(
                ScannedFile(self._source, readable, f"{self._source}/{path}", *facts)
            )

    def _closed(self, path: str, error: OSError, kind: Kind = "no access") -> None:
        self._result.closed.append((self._source, readable_path(path)))
        if kind == "no access":
            reason = system_reason(error)
        else:
            reason = f"{kind}: {system_reason(error)}"
        self._skip(path, reason, kind)

    def _skip(self, path: str, reason: str, kind: Kind) -> None:
        self._result.skipped.append(Skipped(readable_path(path) or ".", reason, self._source, kind))


def _format_of(path: Path) -> str | None:
    """Return the format of a file by its content; mails are often stored without an ending."""
    with path.open("rb") as file:
        return format_of_head(file.read(4096)) or None


def readable_path(path: str) -> str:
    """Return a path as text, with bytes that are not valid UTF-8 as `\\xe9`."""
    if path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path):
        return path
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def system_reason(error: OSError) -> str:
    """Return the system's reason why a file cannot be read."""
    return (error.strerror or str(error)).lower()
