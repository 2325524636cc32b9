"""A file and everything inside it, down to attachments of mails in archives.

This runs in the sandboxed child process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from engine.core.characters import clean
from engine.core.records import Kind, ReadDocument
from engine.corpus.formats import (
    MAY_EMBED,
    Finding,
    LeftOut,
    Member,
    UnreadableFileError,
    find_reader,
    read_bytes,
    report_failed_text,
)
from engine.corpus.formats.archives.members import MAX_MEMBER
from engine.corpus.formats.containers import forget_containers
from engine.corpus.formats.inside import find_embedded_files, may_embed_files
from engine.corpus.formats.locked import unlock
from engine.corpus.formats.pictures import is_ocr_on
from engine.corpus.formats.recognition import MAX_UNPACKED, find_true_format
from engine.corpus.formats.source import get_content_size
from engine.corpus.scan.formats import (
    FORMATS,
    HEAD_LENGTH,
    IMAGES,
    PICTURES,
    SERVED,
    STREAMED,
    TNEF,
    ending_of,
    format_of_head,
    format_without_ending,
    is_lock_file,
    names_no_format,
)
from engine.corpus.text.blocks import restore_words

_PGP = b"-----BEGIN PGP MESSAGE-----"
_MAX_NAME_LENGTH = 200  # characters of each part of a path
_MAX_ENDING_LENGTH = 10
# The ending of a text says how it is marked up.
_KEEP_ENDINGS = STREAMED | {"txt"}

DocumentsAndGaps = Iterator[ReadDocument | LeftOut]
"""What a file gives: its documents, and what is left out of it."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How much of one file is read at most; files inside it are members."""

    # The number of members, and how deep they may be nested.
    members: int = 100_000
    depth: int = 6
    # The bytes of one member, and of all members.
    member: int = MAX_MEMBER
    unpacked: int = MAX_UNPACKED
    # The characters of one text, and of all texts, which are in memory at the same time.
    text: int = 64 * 2**20
    texts: int = 256 * 2**20


LIMITS = FileLimits()


def read_everything(
    path: Path,
    format: str,
    *,
    without: Collection[str] = (),
    begin: Callable[[str], None] = lambda _member: None,
    limits: FileLimits = LIMITS,
) -> DocumentsAndGaps:
    """Yield the documents of a file and of all files inside it, and what is left out, in order.

    `begin`: is called with the path of each member before it is read, and with "" when only the
    files that are embedded in an office file are still to come.
    `without`: the paths of members that are skipped.

    Whatever cannot be read inside the file is yielded as left out, with the reason. Raises what
    `Reader.read` raises if the file itself cannot be read.
    """
    try:
        yield from _Opening(frozenset(without), begin, limits).open_file(path, format)
    finally:
        # Free the package and the compound file that were opened last.
        forget_containers()


@dataclass
class _Opening:
    """The reading of one file, with what was counted so far to enforce the limits."""

    # As in `read_everything`.
    without: frozenset[str]
    begin: Callable[[str], None]
    limits: FileLimits
    # The number of members found, and their bytes.
    members: int = 0
    unpacked: int = 0
    # The bytes of the file itself.
    size: int = 0
    # The characters of all texts.
    characters: int = 0
    # The number that the last member of each name got.
    names: dict[str, int] = field(default_factory=dict)

    def open_file(self, path: Path, format: str) -> DocumentsAndGaps:
        """Read the file itself, and all that is inside it."""
        self.size = get_content_size(path, None)
        yield from self._read(
            path,
            format,
            data=None,
            within="",
            depth=0,
        )

    def _read(
        self, path: Path, format: str, data: bytes | None, within: str, depth: int
    ) -> DocumentsAndGaps:
        """Read a file with the reader of its true format, and the files that are embedded in it.

        For a member, `data` is its content and `within` its path; `depth` is 0 for the file itself.
        """
        if data is None and format in MAY_EMBED:
            # Read once for all: to find its format, its text and the files embedded in it.
            data = read_bytes(path)
        true_format, data = _find_format(path, format, data)
        readable_path = path
        if true_format != ending_of(path.name).lstrip(".") and true_format not in _KEEP_ENDINGS:
            # A reader of several formats tells them apart by the ending of the path.
            data = read_bytes(path, data)
            readable_path = path.with_name(f"{path.stem}.{true_format}")
        container = b""
        if data is not None and may_embed_files(true_format, data):
            container = data
        failed: UnreadableFileError | None = None
        try:
            findings = _catch_crashes(find_reader(true_format).read(readable_path, data), path)
            yield from self._open_all(
                findings,
                path,
                within,
                depth,
            )
        except UnreadableFileError as error:
            if not container:
                raise
            failed = error
        if container:
            if not within:
                # The parent process keeps what it has got of the file, even if one of the embedded
                # files makes this process crash.
                self.begin("")
            embedded = _catch_crashes(find_embedded_files(container), path)
            yield from self._open_all(
                report_failed_text(embedded, failed),
                path,
                within,
                depth,
            )

    def _open_all(
        self, findings: Iterator[Finding], path: Path, within: str, depth: int
    ) -> DocumentsAndGaps:
        """Yield a reader's findings with full paths; files inside are opened and read in turn.

        `path` and `within` are those of the file that the reader reads; see `_read`.
        """
        for finding in findings:
            if isinstance(finding, Member):
                yield from self._open_member(
                    finding,
                    within,
                    depth + 1,
                )
            elif isinstance(finding, LeftOut):
                yield replace(finding, member=self._make_unique(_join_path(within, finding.member)))
            else:
                # A reader names its documents only if a file has several of them.
                member = within
                if finding.member:
                    member = self._make_unique(_join_path(within, finding.member))
                document = restore_words(replace(finding, member=member))
                yield self._check_length(document, path)

    def _check_length(self, document: ReadDocument, path: Path) -> ReadDocument | LeftOut:
        """Return a document if its text is within the limits, else why it is left out.

        Raises UnreadableFileError if it is the text of the file itself.
        """
        length = len(document.text)
        self.characters += length
        if document.member and self.characters > self.limits.texts:
            why = f"all texts in the file have more than {self.limits.texts:,} characters"
            return LeftOut(
                document.member,
                "quarantined",
                "too large",
                why,
            )
        if length <= self.limits.text:
            return document
        why = f"its text has {length:,} characters; at most {self.limits.text:,} are read"
        if document.member:
            return LeftOut(
                document.member,
                "quarantined",
                "too large",
                why,
            )
        raise UnreadableFileError(path, why, "too large")

    def _open_member(
        self,
        member: Member,
        within: str,
        depth: int,
    ) -> DocumentsAndGaps:
        """Read a file inside the file or member `within`, and all that is inside it."""
        size = len(member.data)
        # Office programs leave such files, which say who has a document open.
        if is_lock_file(member.path, size):
            return
        name = self._make_unique(_join_path(within, member.path))
        self.members += 1
        self.unpacked += size
        problem = self._find_exceeded_limit(depth, size)
        if problem:
            is_too_deep = depth > self.limits.depth
            kind: Kind = "unsupported" if is_too_deep else "too large"
            yield LeftOut(
                name,
                "quarantined",
                kind,
                problem,
            )
            return
        format = find_member_format(name, member.data)
        if not format:
            yield _report_unsupported(name, member.data)
        elif name not in self.without:
            self.begin(name)
            path = Path(PurePosixPath(name).name)
            try:
                yield from self._read(
                    path,
                    format,
                    member.data,
                    name,
                    depth,
                )
            except UnreadableFileError as error:
                yield LeftOut(
                    name,
                    "quarantined",
                    error.kind,
                    error.why or error.what,
                )

    def _find_exceeded_limit(self, depth: int, size: int) -> str:
        """Return what a member of so many bytes exceeds, empty if it is within the limits."""
        limits = self.limits
        if depth > limits.depth:
            return f"nested more than {limits.depth} deep"
        if self.members > limits.members:
            return f"the file holds more than {limits.members:,} others"
        if size > limits.member:
            return f"it unpacks to more than {limits.member // 2**20} MB"
        # What is stored as it is, such as the mails of a mailbox, does not count as unpacked.
        if self.unpacked > limits.unpacked + self.size:
            return f"the file unpacks to more than {limits.unpacked // 2**20} MB"
        return ""

    def _make_unique(self, name: str) -> str:
        """Return a name that no member has had yet: `a.txt`, else `a (2).txt` and so on.

        The number goes before the ending, which names the format.
        """
        if name not in self.names:
            self.names[name] = 1
            return name
        ending = _find_ending(name)
        stem = name.removesuffix(ending)
        number = self.names[name] + 1
        while (candidate := f"{stem} ({number}){ending}") in self.names:
            number += 1
        self.names[name] = number
        self.names[candidate] = 1
        return candidate


def _find_format(
    path: Path,
    format: str,
    data: bytes | None,
) -> tuple[str, bytes | None]:
    """Return (true format, content) of a file; the content is None if it is not in memory yet.

    If a known password opens a locked office file, both are those of the unlocked file.
    """
    try:
        return find_true_format(path, format, data), data
    except UnreadableFileError as error:
        if error.kind != "encrypted":
            raise
        data = read_bytes(path, data)
        # A locked ZIP package is an OpenDocument file, whose passwords are not tried.
        if data.startswith(b"PK"):
            raise
        content = unlock(path, data)
        return find_true_format(path, format, content), content


def _catch_crashes(findings: Iterator[Finding], path: Path) -> Iterator[Finding]:
    """Yield the findings of a reader; an internal error of it becomes an UnreadableFileError.

    So does a panic of a library in Rust.
    """
    while True:
        try:
            finding = next(findings)
        except StopIteration:
            return
        except (
            UnreadableFileError,
            OSError,
            MemoryError,
            KeyboardInterrupt,
            SystemExit,
            GeneratorExit,
        ):
            raise
        # A panic is not an Exception.
        except BaseException as error:
            raise UnreadableFileError(
                path, f"its reader failed ({type(error).__name__})", "crashed"
            ) from error
        yield finding


def find_member_format(name: str, data: bytes) -> str:
    """Return the format of a file inside another, by its name, else by its content.

    Empty for a file that is not read.
    """
    ending = ending_of(name)
    if ending in FORMATS:
        return FORMATS[ending]
    if ending in IMAGES:
        return PICTURES.get(ending, "") if is_ocr_on() else ""
    if data.startswith(b"%PDF-"):
        return "pdf"
    if data.startswith(TNEF):
        return "tnef"
    if names_no_format(ending):
        return format_without_ending(data[:HEAD_LENGTH])
    return format_of_head(data[:HEAD_LENGTH]) if ending in SERVED else ""


def _report_unsupported(name: str, data: bytes) -> LeftOut:
    """Return the report of a member without a format, with the reason."""
    ending = ending_of(name)
    if data.startswith(_PGP):
        return LeftOut(name, "quarantined", "encrypted", "encrypted for its recipients (PGP)")
    if ending in IMAGES:
        why = "a picture: without OCR it holds no text"
        if is_ocr_on():
            why = "a picture of a kind that OCR does not read"
        return LeftOut(name, "skipped", "needs OCR", why)
    return LeftOut(
        name,
        "skipped",
        "unsupported",
        f"format not supported: {ending or 'no ending'}",
    )


def _join_path(within: str, name: str) -> str:
    """Return the path of a member by its name in the member `within`, empty for the file itself.

    `..` and empty parts are left out, and long names are shortened.
    """
    parts = clean(name).replace("\\", "/").split("/")
    named_parts = [_shorten_name(part) for part in parts if part not in ("", ".", "..")]
    path = "/".join(named_parts) or "unnamed"
    return f"{within}/{path}" if within else path


def _shorten_name(name: str) -> str:
    """Return a name of at most 200 characters: a longer stem is cut off, and the ending stays."""
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    ending = _find_ending(name)
    return name[: _MAX_NAME_LENGTH - len(ending)] + ending


def _find_ending(name: str) -> str:
    """Return the ending of a name as it is written, empty if it is too long for an ending."""
    length = len(ending_of(name))
    if length <= _MAX_ENDING_LENGTH:
        return name[len(name) - length :]
    return ""
