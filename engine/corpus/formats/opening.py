"""A file and everything inside it, down to attachments of mails in archives.

This runs in the sandboxed child process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import (
    OFFICE,
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
from engine.corpus.scan.formats import (
    FORMATS,
    IMAGES,
    PICTURES,
    STREAMED,
    TNEF,
    ending_of,
    format_of_head,
    is_lock_file,
    names_no_format,
)
from engine.corpus.text.blocks import made_visible

MAX_MEMBERS = 100_000
MAX_DEPTH = 6
MAX_TEXT_LENGTH = 64 * 2**20  # characters
# Maximum for a file with everything in it, since all texts are held at once.
MAX_TEXT = 4 * MAX_TEXT_LENGTH
_MAX_NAME_LENGTH = 200
_MAX_ENDING_LENGTH = 10


DocumentsAndGaps = Iterator[ReadDocument | LeftOut]


def read_everything(
    path: Path,
    format: str,
    *,
    without: Collection[str] = (),
    begin: Callable[[str], None] = lambda _member: None,
) -> DocumentsAndGaps:
    """Yield the documents of a file and of all files inside it, and what is left out, in order.

    `begin` is called with each member before it is read; members in `without` are skipped. What
    cannot be read inside the file is left out with its reason. Raises as `Reader.read` if the file
    itself cannot be read.
    """
    try:
        yield from _Opening(frozenset(without), begin).file(path, format)
    finally:
        forget_containers()


@dataclass
class _Opening:
    without: frozenset[str]
    begin: Callable[[str], None]
    members: int = 0
    unpacked: int = 0
    size: int = 0
    characters: int = 0
    # Number of members seen by name.
    names: dict[str, int] = field(default_factory=dict)

    def file(self, path: Path, format: str) -> DocumentsAndGaps:
        # What is stored as it is, such as the mails of a mailbox, does not count as unpacked.
        self.size = path.stat().st_size
        yield from self._read(path, format, None, "", 0)

    def _read(
        self, path: Path, format: str, data: bytes | None, within: str, depth: int
    ) -> DocumentsAndGaps:
        if data is None and format in OFFICE:
            # Read once, for its format and for what is in it.
            data = read_bytes(path)
        found_format, data = _find_format(path, format, data)
        inner = path
        if found_format != ending_of(path.name).lstrip(".") and found_format not in STREAMED:
            # Readers of several formats go by the ending.
            data = read_bytes(path, data)
            inner = path.with_name(f"{path.stem}.{found_format}")
        more = data is not None and may_embed_files(found_format, data)
        failed: UnreadableFileError | None = None
        try:
            yield from self._all_of(
                _catch_crashes(find_reader(found_format).read(inner, data), path),
                path,
                within,
                depth,
            )
        except UnreadableFileError as error:
            if not more:
                raise
            failed = error
        if more and data is not None:
            if not within:
                # What the file gave so far stays, whatever happens now.
                self.begin("")
            inside = _catch_crashes(find_embedded_files(data), path)
            yield from self._all_of(report_failed_text(inside, failed), path, within, depth)

    def _all_of(
        self, findings: Iterator[Finding], path: Path, within: str, depth: int
    ) -> DocumentsAndGaps:
        for found in findings:
            if isinstance(found, Member):
                yield from self._member(found, within, depth + 1)
            elif isinstance(found, LeftOut):
                yield replace(found, member=self._unique(_join_path(within, found.member)))
            else:
                if found.member:
                    member = self._unique(_join_path(within, found.member))
                else:
                    member = within
                yield from self._document(replace(found, member=member), path)

    def _document(self, found: ReadDocument, path: Path) -> DocumentsAndGaps:
        found = made_visible(found)
        self.characters += len(found.text)
        if found.member and self.characters > MAX_TEXT:
            why = f"all texts in the file have more than {MAX_TEXT:,} characters"
            yield LeftOut(found.member, "quarantined", "too large", why)
        elif len(found.text) <= MAX_TEXT_LENGTH:
            yield found
        elif found.member:
            yield LeftOut(found.member, "quarantined", "too large", _describe_length(found))
        else:
            raise UnreadableFileError(path, _describe_length(found), "too large")

    def _member(self, member: Member, within: str, depth: int) -> DocumentsAndGaps:
        if is_lock_file(member.path, len(member.data)):
            return
        name = self._unique(_join_path(within, member.path))
        self.members += 1
        self.unpacked += len(member.data)
        problem = self._refusal(depth, len(member.data))
        if problem:
            yield LeftOut(
                name, "quarantined", "too large" if depth <= MAX_DEPTH else "unsupported", problem
            )
            return
        format = find_member_format(name, member.data)
        if not format:
            yield _report_unsupported(name)
        elif name not in self.without:
            self.begin(name)
            try:
                yield from self._read(
                    Path(PurePosixPath(name).name), format, member.data, name, depth
                )
            except UnreadableFileError as error:
                yield LeftOut(name, "quarantined", error.kind, error.why or error.what)

    def _refusal(self, depth: int, size: int) -> str:
        if depth > MAX_DEPTH:
            return f"nested more than {MAX_DEPTH} deep"
        if self.members > MAX_MEMBERS:
            return f"the file holds more than {MAX_MEMBERS:,} others"
        if size > MAX_MEMBER:
            return f"it unpacks to more than {MAX_MEMBER // 2**20} MB"
        if self.unpacked > MAX_UNPACKED + self.size:
            return f"the file unpacks to more than {MAX_UNPACKED // 2**20} MB"
        return ""

    def _unique(self, name: str) -> str:
        """Return a name that no member has had yet.

        A number goes before the ending, which names the format.
        """
        candidate = name
        number = self.names.get(name, 0) + 1
        ending = _find_ending(name)
        while (
            number > 1
            and (candidate := f"{name.removesuffix(ending)} ({number}){ending}") in self.names
        ):
            number += 1
        self.names[name] = number
        self.names.setdefault(candidate, 1)
        return candidate


def _find_format(path: Path, format: str, data: bytes | None) -> tuple[str, bytes | None]:
    """Return `find_true_format` and the content.

    For a locked office file that a known password opens, they are those of the unlocked file.
    """
    try:
        return find_true_format(path, format, data), data
    except UnreadableFileError as error:
        if error.kind != "encrypted":
            raise
        data = read_bytes(path, data)
        # A package that may be locked is OpenDocument.
        if data.startswith(b"PK"):
            raise
        content = unlock(path, data)
        return find_true_format(path, format, content), content


def _catch_crashes(found: Iterator[Finding], path: Path) -> Iterator[Finding]:
    """Yield what a reader finds, and report its internal errors as reasons like any other.

    A panic of the reader's library counts as an internal error.
    """
    while True:
        try:
            item = next(found)
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
        yield item


def find_member_format(name: str, data: bytes) -> str:
    """Return the format of a file inside another, by its name, else by its content.

    Empty for a file that is not read.
    """
    ending = ending_of(name)
    if ending in FORMATS:
        return FORMATS[ending]
    if ending in IMAGES:
        if is_ocr_on():
            return PICTURES.get(ending, "")
        return ""
    if data.startswith(b"%PDF-"):
        return "pdf"
    if data.startswith(TNEF):
        return "tnef"
    if names_no_format(ending):
        return format_of_head(data[:4096])
    return ""


def _report_unsupported(name: str) -> LeftOut:
    ending = ending_of(name)
    if ending in IMAGES:
        if is_ocr_on():
            why = "a picture of a kind that OCR does not read"
        else:
            why = "a picture: without OCR it holds no text"
        return LeftOut(name, "skipped", "needs OCR", why)
    return LeftOut(name, "skipped", "unsupported", f"format not supported: {ending or 'no ending'}")


def _join_path(within: str, name: str) -> str:
    parts = [
        part for part in clean(name).replace("\\", "/").split("/") if part not in ("", ".", "..")
    ]
    shown = "/".join(map(_shorten, parts)) or "unnamed"
    return f"{within}/{shown}" if within else shown


def _shorten(name: str) -> str:
    ending = _find_ending(name)
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    return name[: _MAX_NAME_LENGTH - len(ending)] + ending


def _find_ending(name: str) -> str:
    """Return the ending of a name as it is written, empty if it is too long for an ending."""
    length = len(ending_of(name))
    if length <= _MAX_ENDING_LENGTH:
        return name[len(name) - length :]
    return ""


def _describe_length(found: ReadDocument) -> str:
    return f"its text has {len(found.text):,} characters; at most {MAX_TEXT_LENGTH:,} are read"
