"""The scan, which finds the documents in the named folders."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.characters import compose_accents
from engine.core.disk import path_exists
from engine.core.errors import InputError, UsageError
from engine.core.platforms.files import is_link, is_online_only
from engine.core.platforms.names import reachable_path
from engine.core.records import Kind
from engine.corpus.scan.formats import (
    FORMATS,
    HEAD_LENGTH,
    IMAGES,
    PICTURES,
    SERVED,
    ending_of,
    find_online_file,
    format_of_head,
    format_without_ending,
    is_hidden_name,
    is_lock_file,
    is_tnef,
    names_no_format,
)
from engine.datasets.beir import BEIR_CORPUS, begins_corpus

if TYPE_CHECKING:
    from pathspec import PathSpec
    from pathspec.pattern import Pattern

OWN_FILES = {"project.toml", "project.db"}
ONLINE_ONLY = "it is stored online only; keep it on this device to have it read"
_BEIR_FILES = {BEIR_CORPUS, "queries.jsonl", "qrels"}


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file to read."""

    # The folder in which it was found.
    source: str
    # Its path in that folder, with forward slashes, in a readable form.
    path: str
    # Its path on the disk, as a string: to create a `Path` for each of many files takes as long as
    # to find the files.
    place: str
    # Bytes.
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
    """A file or folder that is left out, with the reason in words and as a kind."""

    # Its path in `source`, "." for the source itself.
    path: str
    reason: str
    # The folder in which it was found.
    source: str = ""
    kind: Kind = ""


@dataclass(slots=True)
class Scan:
    """The result of a scan; `files` and `skipped` are sorted by path."""

    files: list[ScannedFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    # (source, path) of files and folders whose content is unknown, since the system did not let us
    # look at them.
    inaccessible: list[tuple[str, str]] = field(default_factory=list)
    # Sources that were read before and are now empty or gone, as if a drive were not mounted. They
    # also count as inaccessible.
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
    """Find the documents under `sources` (folders or files).

    `include`, `exclude`: patterns as in .gitignore, matched against paths relative to the source. A
    file that is itself a source is always taken.
    `follow_links`: whether to follow links that lead out of their source.
    `pictures`: whether pictures are documents.
    `read_before`: the sources of which files were read before. If one of several sources is now
    empty or gone, it is reported as `Scan.away`.

    A file that is reached in two ways counts once. In a BEIR data set, corpus.jsonl is the only
    document. Raises InputError for a missing source, and UsageError for an invalid pattern.
    """
    # All files match the default patterns, so no file need be compared with them.
    included = None if list(include) == ["**/*"] else _parse_patterns(include)
    excluded = _parse_patterns(exclude)
    result = Scan()
    taken: set[str] = set()
    folders = [Path(os.path.normpath(Path(source).absolute())) for source in sources]
    away = {folder for folder in folders if str(folder) in read_before and is_bare(folder)}
    # If all sources are empty or gone, that is an error, and none is reported as away.
    if len(away) == len(set(folders)):
        away = set()
    for source, folder in zip(sources, folders, strict=True):
        exists = path_exists(folder)
        if folder in away:
            reason = "the folder is empty" if exists else "the folder is not there"
            result.inaccessible.append((str(folder), ""))
            result.away.append(Skipped(".", reason, str(folder), "no access"))
            continue
        if not exists:
            to_do = "Check corpus.paths in project.toml. What was read before stays searchable."
            raise InputError(
                f"{source} does not exist, or cannot be reached.",
                "",
                to_do,
                code="path-missing",
                stage="ingest",
            )
        _SourceWalk(str(folder), included, excluded, result, taken, follow_links, pictures).run()
    result.files.sort(key=lambda file: (file.path, file.source))
    result.skipped.sort(key=lambda item: (item.path, item.source))
    return result


def is_bare(folder: Path) -> bool:
    """Return whether a folder is empty, missing or unreadable."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return True


def _parse_patterns(lines: Sequence[str]) -> PathSpec[Pattern]:
    """Return what matches paths with patterns of .gitignore. Raises UsageError."""
    import re

    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(map(compose_accents, lines))
    except (ValueError, TypeError, re.error) as error:
        what = "A pattern in corpus.include or corpus.exclude is not valid."
        raise UsageError(
            what, str(error), "Write it as in a .gitignore file.", code="pattern-invalid"
        ) from error


class _SourceWalk:
    """The walk through one source, which adds to `result` what it finds.

    Real folders are visited before links, so that a linked file is known by its real path.

    `taken`: the real paths of the files found so far in all sources. In the methods, `path` is
    relative to the source, with forward slashes, and `real` is an absolute path without links.
    """

    def __init__(
        self,
        source: str,
        included: PathSpec[Pattern] | None,
        excluded: PathSpec[Pattern],
        result: Scan,
        taken: set[str],
        follow_links: bool,
        pictures: bool,
    ) -> None:
        self._follow_links = follow_links
        self._formats = {**FORMATS, **PICTURES} if pictures else FORMATS
        self._source = source
        self._included = included
        self._excluded = excluded
        self._result = result
        self._taken = taken
        self._real_source = os.path.realpath(source)
        # Folders that are still to be walked, by path and real path, and links to be followed.
        self._folders: list[tuple[str, str]] = []
        self._links: deque[str] = deque()
        # The real paths of the folders walked.
        self._walked: set[str] = set()

    def run(self) -> None:
        """Fill the result."""
        if not Path(self._real_source).is_dir():
            file = Path(self._source)
            self._source = str(file.parent)
            try:
                self._take(
                    file.name,
                    file.stat(),
                    self._real_source,
                )
            except OSError as error:
                self._add_inaccessible(file.name, error)
            return
        self._folders.append(("", self._real_source))
        while self._folders or self._links:
            if self._folders:
                self._walk_folder(*self._folders.pop())
            else:
                self._follow(self._links.popleft())

    def _walk_folder(self, path: str, real: str) -> None:
        """Take the files of a folder, and note its folders and links for later."""
        if real in self._walked:
            return
        self._walked.add(real)
        try:
            with os.scandir(self._locate(path)) as entries:
                visible = {entry.name: entry for entry in entries if _is_visible(entry.name)}
        except OSError as error:
            self._add_inaccessible(path, error)
            return
        # The reports of a project hold queries, not documents.
        if visible.keys() >= OWN_FILES:
            self._skip(path, "a bmembed project", "project")
            return
        prefix = f"{path}/" if path else ""
        if self._is_beir(prefix, visible):
            visible = self._keep_beir_corpus(prefix, visible)
        for name, entry in sorted(visible.items()):
            self._examine(
                prefix + name,
                entry,
                real,
            )

    def _locate(self, path: str) -> str:
        """Return the path on the disk of a path that is relative to the source."""
        return reachable_path(f"{self._source}/{path}")

    def _examine(
        self,
        path: str,
        entry: os.DirEntry[str],
        real_folder: str,
    ) -> None:
        """Take a file, or note a folder or link for later; `real_folder`: the folder it is in."""
        real = f"{real_folder}{os.sep}{entry.name}"
        try:
            if is_link(entry):
                self._links.append(path)
            elif entry.is_dir():
                if not self._excluded.match_file(f"{_matched_path(path)}/"):
                    self._folders.append((path, real))
            elif online_file := find_online_file(path):
                if self._matches(online_file):
                    self._add_inaccessible(online_file, OSError(0, ONLINE_ONLY))
            elif self._matches(path):
                self._take(
                    path,
                    entry.stat(),
                    real,
                )
        except OSError as error:
            self._add_inaccessible(path, error)

    def _follow(self, path: str) -> None:
        """Take the file or note the folder to which a link leads, or skip the link."""
        try:
            real = os.path.realpath(f"{self._source}/{path}")
            status = Path(self._locate(path)).stat()
        except FileNotFoundError as error:
            self._skip(
                path,
                f"broken link: {system_reason(error)}",
                "broken link",
            )
            return
        except OSError as error:
            self._add_inaccessible(path, error, "broken link")
            return
        try:
            self._follow_to(path, real, status)
        except OSError as error:
            self._add_inaccessible(path, error)

    def _follow_to(
        self,
        path: str,
        real: str,
        status: os.stat_result,
    ) -> None:
        """Follow a link whose target exists; `real` and `status` are those of the target."""
        if not self._follow_links and not Path(real).is_relative_to(self._real_source):
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

    def _is_beir(self, prefix: str, entries: dict[str, os.DirEntry[str]]) -> bool:
        """Return whether a folder is a BEIR data set; `prefix` begins the paths of its entries."""
        corpus = entries.get(BEIR_CORPUS)
        path = prefix + BEIR_CORPUS
        if corpus is None or not corpus.is_file() or not self._matches(path):
            return False
        return begins_corpus(Path(self._locate(path)))

    def _keep_beir_corpus(
        self, prefix: str, entries: dict[str, os.DirEntry[str]]
    ) -> dict[str, os.DirEntry[str]]:
        """Return the corpus of a BEIR data set alone, and skip other documents and folders."""
        for name, entry in entries.items():
            if name in _BEIR_FILES or not self._matches(prefix + name):
                continue
            if ending_of(name) in FORMATS or entry.is_dir():
                self._skip(
                    prefix + name,
                    f"next to a BEIR data set's {BEIR_CORPUS}",
                    "data set",
                )
        return {BEIR_CORPUS: entries[BEIR_CORPUS]}

    def _matches(self, path: str) -> bool:
        """Return whether a file is included and not excluded by the user's patterns."""
        path = _matched_path(path)
        if self._included is not None and not self._included.match_file(path):
            return False
        return not (self._excluded.patterns and self._excluded.match_file(path))

    def _take(
        self,
        path: str,
        status: os.stat_result,
        real: str,
    ) -> None:
        """Add a file to the result, or to what is skipped if it cannot be a document."""
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
        if not stat.S_ISREG(status.st_mode):
            self._skip(path, "not a regular file", "unsupported")
            return
        if is_lock_file(path, status.st_size):
            return
        if is_online_only(status):
            self._add_inaccessible(path, OSError(0, ONLINE_ONLY))
            return
        format = self._find_format(path, status.st_size)
        if format is None:
            self._skip_unsupported(path)
            return
        self._taken.add(real)
        file = ScannedFile(
            source=self._source,
            path=readable,
            place=self._locate(path),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            format=format,
            ctime_ns=status.st_ctime_ns,
        )
        self._result.files.append(file)

    def _find_format(self, path: str, size: int) -> str | None:
        """Return the format of a file, None if it is not known."""
        if path.rpartition("/")[2] == BEIR_CORPUS and begins_corpus(Path(self._locate(path))):
            return "beir"
        ending = ending_of(path)
        if ending in self._formats:
            return self._formats[ending]
        # Mails and texts such as README are often stored without an ending.
        has_no_format = names_no_format(ending)
        if not size or not (has_no_format or ending in SERVED or is_tnef(path)):
            return None
        with Path(self._locate(path)).open("rb") as file:
            head = file.read(HEAD_LENGTH)
        if has_no_format:
            return format_without_ending(head) or None
        return format_of_head(head) or None

    def _skip_unsupported(self, path: str) -> None:
        """Skip a file of no known format, with what the user can do about it as the reason."""
        ending = ending_of(path)
        if ending not in IMAGES:
            self._skip(
                path,
                f"format not supported: {ending or 'no ending'}",
                "unsupported",
            )
        elif self._formats is FORMATS:
            self._skip(path, "a picture: without OCR it holds no text", "needs OCR")
        else:
            self._skip(path, "a picture of a kind that OCR does not read", "needs OCR")

    def _add_inaccessible(
        self,
        path: str,
        error: OSError,
        kind: Kind = "no access",
    ) -> None:
        """Skip a file or folder that the system does not let us look at."""
        self._result.inaccessible.append((self._source, readable_path(path)))
        reason = system_reason(error)
        if kind != "no access":
            reason = f"{kind}: {reason}"
        self._skip(path, reason, kind)

    def _skip(
        self,
        path: str,
        reason: str,
        kind: Kind,
    ) -> None:
        """Add a file or folder to what is skipped."""
        self._result.skipped.append(Skipped(readable_path(path) or ".", reason, self._source, kind))


def _is_visible(name: str) -> bool:
    """Return whether an entry of a folder is looked at: not hidden, or the place of a document."""
    return not is_hidden_name(name) or find_online_file(name) != ""


def _matched_path(path: str) -> str:
    """Return a path in the form in which patterns are compared with it."""
    return compose_accents(readable_path(path))


def readable_path(path: str) -> str:
    """Return a path as text, with bytes that are not valid UTF-8 as `\\xe9`."""
    if path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path):
        return path
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def system_reason(error: OSError) -> str:
    """Return the system's reason why a file cannot be read."""
    return (error.strerror or str(error)).lower()
