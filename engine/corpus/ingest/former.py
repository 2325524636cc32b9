"""What the last ingest stored of files and documents, and how much of it is still valid.

Passwords, OCR and limits decide whether files that gave nothing, or were read by OCR, are tried
again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Container, Set
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import NoDocumentsError
from engine.core.platforms.files import open_private
from engine.core.records import Document, ReadDocument
from engine.corpus.formats.locked import read_passwords
from engine.corpus.sandbox.outcome import Outcome
from engine.corpus.sandbox.tesseract import Tesseract, find_tesseract
from engine.corpus.scan.scan import Scan, ScannedFile, Skipped
from engine.corpus.text.metadata import named, title_from_name
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo
from engine.project.store.files import FileRecord

_GONE = " (gone)"
# The kind of a file that was read by OCR, at least in part.
BY_OCR = "OCR"


def limits_of(context: StageContext) -> dict[str, int]:
    """Return each kind of failure with the limit that caused it.

    If a limit is raised, files that failed because of it are worth another try.
    """
    corpus = context.settings.corpus
    memory = corpus.reading_memory_mb
    limits = {"timed out": corpus.reading_seconds, "out of memory": memory, "crashed": memory}
    return limits | ({"needs OCR": corpus.ocr_seconds} if corpus.ocr else {})


def passwords_file(context: StageContext) -> Path:
    """Return the file of passwords; a relative path starts at the project's folder."""
    return context.project.path / Path(context.settings.corpus.passwords_file).expanduser()


def passwords(context: StageContext) -> tuple[str, ...]:
    """Return the user's passwords.

    Raises InputError.
    """
    if context.settings.corpus.passwords_file:
        return read_passwords(passwords_file(context))
    return ()


def passwords_mark(context: StageContext) -> tuple[int, ...] | None:
    """Return a mark that changes with the file of passwords and reveals none of its content."""
    if not context.settings.corpus.passwords_file:
        return None
    try:
        status = passwords_file(context).stat()
    except OSError:
        return None
    return (status.st_mtime_ns,)


def wanted_tesseract(context: StageContext) -> Tesseract | None:
    """Return the program that reads pictures, or None if it is not wanted or not installed.

    Raises SettingsError for a language that it does not know.
    """
    corpus = context.settings.corpus
    if not corpus.ocr:
        return None
    found = find_tesseract(corpus.ocr_languages)
    if found is None:
        context.warn(
            "corpus.ocr is on, but no tesseract with data for a language was found: scans are not"
            " read."
        )
    else:
        context.choose("ocr", found.languages, f"{found.version} at {found.program}")
    return found


def ocr_mark(context: StageContext, tesseract: Tesseract | None) -> str:
    """Return a mark that changes if pictures are now read differently.

    If tesseract is gone, what it read stays; when it returns, what was left unread meanwhile is
    read.
    """
    if tesseract is not None:
        return tesseract.mark
    former = context.store.artifact(CorpusInfo)
    if former and context.settings.corpus.ocr:
        mark = former.info.ocr
    else:
        mark = ""
    if mark:
        return f"{mark.removesuffix(_GONE)}{_GONE}"
    return ""


def is_closed(record: FileRecord, closed: Set[tuple[str, str]]) -> bool:
    """Tell whether a file lies in one of the (source, path) that a scan could not look at."""
    if not closed:
        return False
    ends = (at for at, sign in enumerate(record.path) if sign == "/")
    return any(
        (record.source, place) in closed
        for place in ("", record.path, *(record.path[:end] for end in ends))
    )


def record_of(
    file: ScannedFile, content_hash: str, state: str, reason: str, chunking: str, kind: str = ""
) -> FileRecord:
    """Return the record that is stored of a file."""
    return FileRecord(
        file.source,
        file.path,
        file.format,
        file.size,
        file.mtime_ns,
        content_hash,
        state,
        reason,
        chunking,
        kind=kind,
        ctime_ns=file.ctime_ns,
    )


def document_of(file: ScannedFile, content_hash: str, read: ReadDocument) -> Document:
    """Return the document to store.

    The path of a document inside a file continues the path of that file.
    """
    if read.member:
        path = f"{file.path}/{read.member}"
    else:
        path = file.path
    if read.external_id is not None:
        path = f"{file.path}#{read.external_id}"
    if path != file.path:
        content_hash = hashlib.sha256(f"{read.title}\0{read.text}".encode()).hexdigest()
    return Document(
        path=path,
        source=file.source,
        format=read.format,
        title=read.title,
        text=read.text,
        content_hash=content_hash,
        size=file.size,
        modified=file.mtime_ns / 1e9,
        external_id=read.external_id,
        author=named(read.author),
        created=read.created,
        changed=read.changed,
        tags=read.tags,
    )


@dataclass
class Looked:
    """A changed file that was looked at: its hash, and its content if it had to be read."""

    file: ScannedFile
    content_hash: str = ""
    outcome: Outcome | None = None
    closed: str = ""


class Former:
    """The files as they were last read; `chunking` is a mark of how chunks are cut now."""

    def __init__(
        self, context: StageContext, chunking: str, ocr: Tesseract | None, found: Scan
    ) -> None:
        self._store = context.store
        self._chunking = chunking
        self._titled = context.settings.corpus.context == "title"
        self.files = self._store.files()
        kinds = _worth_another_try(context, ocr)
        self._reopening = {
            record.id for record in self.files.values() if kinds and self._is_of(record, kinds)
        }
        self._lost = self._not_in_place(found)

    def record_of(self, file: ScannedFile) -> FileRecord | None:
        """Return the stored record of a file, even if the file was gone."""
        return self.files.get((file.source, file.path))

    def is_changed(self, file: ScannedFile) -> bool:
        """Tell whether a file must be looked at.

        Its size, its modification time and the system's time of its last status change decide: a
        file that was renamed to the name of another one may have the same size and modification
        time.
        """
        record = self.record_of(file)
        # A file that could not be opened may be readable now.
        if record is None or record.state not in (
            "read",
            "quarantined",
        ):
            return True
        same = (record.size, record.mtime_ns, record.ctime_ns) == (
            file.size,
            file.mtime_ns,
            file.ctime_ns,
        )
        return not same or record.chunking != self._chunking or record.id in self._reopening

    def is_known(self, record: FileRecord, content_hash: str) -> bool:
        """Tell whether the stored record has this content and nothing more can be read from it."""
        same = bool(content_hash) and (record.content_hash, record.chunking) == (
            content_hash,
            self._chunking,
        )
        return same and record.id not in self._reopening

    def is_elsewhere(self, content_hash: str) -> bool:
        """Tell whether a lost file had this content, so this one may be that file renamed."""
        return content_hash in self._lost

    def renamed(
        self, file: ScannedFile, content_hash: str
    ) -> tuple[FileRecord, FileRecord, tuple[str, str]] | None:
        """Return the records of a renamed file and the titles made from its two names.

        These are (the record under the former name, the record under the new name, both titles).
        Each lost file is returned once. None if no lost file had this content, or if chunks hold a
        title that changes.
        """
        lost = self._lost.get(content_hash, [])
        former = next((record for record in lost if record.format == file.format), None)
        if former:
            titles = (title_from_name(Path(former.path)), title_from_name(Path(file.path)))
        else:
            titles = ("", "")
        if former is None or (self._titled and titles[0] != titles[1]):
            return None
        lost.remove(former)
        del self.files[former.source, former.path]
        return (
            former,
            record_of(file, content_hash, "read", former.reason, self._chunking, former.kind),
            titles,
        )

    def _not_in_place(self, found: Scan) -> dict[str, list[FileRecord]]:
        """Return files that were read and are missing from their places, by content."""
        present = {(file.source, file.path) for file in found.files}
        closed = set(found.closed)
        lost: dict[str, list[FileRecord]] = {}
        for key, record in self.files.items():
            current = record.state == "read" and record.chunking == self._chunking
            if current and key not in present and not is_closed(record, closed):
                lost.setdefault(record.content_hash, []).append(record)
        return lost

    def _is_of(self, record: FileRecord, kinds: set[str]) -> bool:
        """Tell whether a file, or a part of it, failed in one of these ways."""
        return record.kind in kinds or any(
            part.kind in kinds for part in self._store.parts(record.id)
        )


def _worth_another_try(context: StageContext, ocr: Tesseract | None) -> set[str]:
    """Return the kinds of failures that new passwords, OCR or limits may resolve."""
    former = context.store.artifact(CorpusInfo)
    if former:
        info = former.info
    else:
        info = CorpusInfo()
    if info.passwords != passwords_mark(context):
        kinds = {"encrypted"}
    else:
        kinds = set()
    gone = ocr is None and context.settings.corpus.ocr
    if not gone and info.ocr != ocr_mark(context, ocr):
        kinds |= {"needs OCR", BY_OCR}
    return kinds | {
        kind for kind, limit in limits_of(context).items() if limit > info.limits.get(kind, limit)
    }


def forget_gone(
    context: StageContext,
    known: dict[tuple[str, str], FileRecord],
    found: Scan,
    sources: Container[str] | None = None,
) -> int:
    """Remove files that are gone from search, within a transaction, and count those that were read.

    Only files of `sources` are considered (None: of all, including former ones). What the system
    does not let us look at is not gone.
    """
    present = {(file.source, file.path) for file in found.files}
    closed = set(found.closed)
    there = [
        record for key, record in known.items() if key not in present and record.state != "gone"
    ]
    mine = (record for record in there if sources is None or record.source in sources)
    gone = [record for record in mine if not is_closed(record, closed)]
    for record in gone:
        context.store.forget_file(record.id)
    if gone:
        context.store.mark_incomplete(CorpusInfo)
    return sum(record.state == "read" for record in gone)


def no_documents(what: str, skipped: list[Skipped], context: StageContext) -> NoDocumentsError:
    """Return the error of a project without anything to search.

    It names the first few files that were left out, and why.
    """
    shown = "; ".join(f"{item.path}: {item.reason}" for item in skipped[:5])
    if len(skipped) > 5:
        more = f"; and {len(skipped) - 5} more"
    else:
        more = ""
    if skipped:
        why = f"Skipped: {shown}{more}."
    else:
        why = "The folder is empty, or no file matches corpus.include."
    if context.store.has_chunks():
        kept = " What was searchable before stays so."
    else:
        kept = ""
    to_do = (
        "Put documents that hold text there (text, office files, PDF, emails, or a BEIR folder), or"
        " name another folder in"
    )
    return NoDocumentsError(what, why, f"{to_do} project.toml.{kept}")


def hash_file(path: Path) -> str:
    """Return the hash of a file's content.

    Raises OSError, also if a pipe or device has replaced the file.
    """
    descriptor = open_private(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file any more")
        return hashlib.file_digest(file, "sha256").hexdigest()
