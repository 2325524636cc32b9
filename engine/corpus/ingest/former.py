"""Files and documents as they are stored; what the last ingest left of each, and what of it
still holds: passwords, OCR and limits decide whether files that gave nothing, or were read by
OCR, are tried again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Container, Set
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import NoDocumentsError
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
BY_OCR = "OCR"  # the kind of a file that was read so, in part at least


def limits_of(context: StageContext) -> dict[str, int]:
    """Kind of failure → the limit that it was met at: where that is raised, such files are worth
    another try.
    """
    corpus = context.settings.corpus
    memory = corpus.reading_memory_mb
    limits = {"timed out": corpus.reading_seconds, "out of memory": memory, "crashed": memory}
    return limits | ({"needs OCR": corpus.ocr_seconds} if corpus.ocr else {})


def passwords_file(context: StageContext) -> Path:
    """Where the user's passwords lie; a relative path is taken from the project's folder."""
    return context.project.path / Path(context.settings.corpus.passwords_file).expanduser()


def passwords(context: StageContext) -> tuple[str, ...]:
    """The user's passwords. Raises InputError."""
    if context.settings.corpus.passwords_file:
        return read_passwords(passwords_file(context))
    return ()


def passwords_mark(context: StageContext) -> tuple[int, ...] | None:
    """A mark that changes with the file of passwords and gives away nothing of what it holds."""
    if not context.settings.corpus.passwords_file:
        return None
    try:
        status = passwords_file(context).stat()
    except OSError:
        return None
    return (status.st_mtime_ns,)


def wanted_tesseract(context: StageContext) -> Tesseract | None:
    """What reads pictures, where it is wanted and there.

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
    """A mark that changes when pictures are read otherwise than before.

    A tesseract that is gone takes nothing away; when it comes back, what was left unread meanwhile
    is read.
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
    """Whether a file lies where a scan could not look: (source, path) of files and folders."""
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
    """What is stored of a file."""
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
    """What is stored of a document; of what lies inside a file, its path goes on within."""
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
    )


@dataclass
class Looked:
    """What a look at a changed file found: its hash, and what its reading came to where it had
    to be read.
    """

    file: ScannedFile
    content_hash: str = ""
    outcome: Outcome | None = None
    closed: str = ""


class Former:
    """The files as they were read before. `chunking`: how chunks are cut now."""

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
        """What is stored of a file, also of one that was gone."""
        return self.files.get((file.source, file.path))

    def is_changed(self, file: ScannedFile) -> bool:
        """Whether a file must be looked at.

        Its size and time of change decide, and when the system last noted a change of it: a file
        that has taken the name of another one may be as long and as old.
        """
        record = self.record_of(file)
        # what was closed to us may be open now
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
        """Whether what is stored of a file is of this content, and all that can be made of it."""
        same = bool(content_hash) and (record.content_hash, record.chunking) == (
            content_hash,
            self._chunking,
        )
        return same and record.id not in self._reopening

    def is_elsewhere(self, content_hash: str) -> bool:
        """Whether a file with this content is not where it was: it may have been renamed."""
        return content_hash in self._lost

    def renamed(
        self, file: ScannedFile, content_hash: str
    ) -> tuple[FileRecord, FileRecord, tuple[str, str]] | None:
        """(what was stored of the file under its former name, the same under the new one, the
        titles that the names make), once for each lost file; None where none had this content,
        or where chunks hold a title that changes.
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
        """Files that were read and are not where they were, by content."""
        present = {(file.source, file.path) for file in found.files}
        closed = set(found.closed)
        lost: dict[str, list[FileRecord]] = {}
        for key, record in self.files.items():
            current = record.state == "read" and record.chunking == self._chunking
            if current and key not in present and not is_closed(record, closed):
                lost.setdefault(record.content_hash, []).append(record)
        return lost

    def _is_of(self, record: FileRecord, kinds: set[str]) -> bool:
        """Whether a file, or something in it, came to one of these ends."""
        return record.kind in kinds or any(
            part.kind in kinds for part in self._store.parts(record.id)
        )


def _worth_another_try(context: StageContext, ocr: Tesseract | None) -> set[str]:
    """The kinds of files that passwords, OCR or limits not tried before may open."""
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
    """Within a transaction: files of `sources` (None: of all, also of former ones) that are gone
    leave search; returns how many of these were read. What the system does not let us look at is
    not gone.
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
    """The error of a project that nothing can be searched in, with the first few that were left
    out, and why.
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
    """The hash of a file's content.

    Raises OSError, also where a pipe or a device has taken the file's place.
    """
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file any more")
        return hashlib.file_digest(file, "sha256").hexdigest()
