"""What the last ingest stored of files and documents, and how much of it is still valid.

Passwords, OCR and limits decide whether files that gave nothing, or were read by OCR, are tried
again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Container, Iterator, Set
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.disk import expand_home
from engine.core.errors import NoDocumentsError
from engine.core.platforms.files import open_private
from engine.core.records import Document, ReadDocument
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.locked import read_passwords
from engine.corpus.ingest.data_set import read_data_set
from engine.corpus.sandbox.outcome import Outcome
from engine.corpus.sandbox.tesseract import Tesseract, find_tesseract
from engine.corpus.scan.formats import OCR_FORMATS
from engine.corpus.scan.scan import Scan, ScannedFile, Skipped
from engine.corpus.text.metadata import drop_placeholder_names, title_from_name
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo
from engine.project.store.files import FileRecord, PartRecord

# The end of `ocr_mark` while a tesseract that was installed before is missing.
_GONE = " (gone)"
# Files with more characters are stored in transactions of their own.
_LONG = 1_000_000
# The kind of a file that was read by OCR, at least in part.
KIND_OCR = "OCR"
# Files that an error names.
_MAX_NAMED = 5


def limits_of(context: StageContext) -> dict[str, int]:
    """Return each kind of failure with the limit that caused it.

    If a limit is raised, files that failed because of it are worth another try.
    """
    corpus = context.settings.corpus
    memory = corpus.reading_memory_mb
    limits = {
        "timed out": corpus.reading_seconds,
        "out of memory": memory,
        "crashed": memory,
    }
    if corpus.ocr:
        limits["needs OCR"] = corpus.ocr_seconds
    return limits


def passwords_file(context: StageContext) -> Path:
    """Return the file of passwords; a relative path starts at the project's folder."""
    return context.project.path / expand_home(context.settings.corpus.passwords_file)


def passwords(context: StageContext) -> tuple[str, ...]:
    """Return the passwords in corpus.passwords_file, with which locked files are opened.

    Raises InputError if they cannot be read.
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


def choose_tesseract(context: StageContext) -> Tesseract | None:
    """Return the program that reads pictures, or None if OCR is off or it is not installed.

    Raises SettingsError for a language that it does not know.
    """
    corpus = context.settings.corpus
    if not corpus.ocr:
        return None
    tesseract = find_tesseract(corpus.ocr_languages)
    if tesseract is None:
        context.warn(
            "corpus.ocr is on, but no tesseract with data for a language was found: scans are not"
            " read."
        )
    else:
        reason = f"{tesseract.version} at {tesseract.program}"
        context.report_choice(
            "ocr",
            tesseract.languages,
            reason,
        )
    return tesseract


def ocr_mark(context: StageContext, tesseract: Tesseract | None) -> str:
    """Return a mark that changes if pictures are now read differently.

    If tesseract is gone, what it read stays; when it returns, what was left unread meanwhile is
    read.
    """
    if tesseract is not None:
        return tesseract.mark
    former = context.store.artifact(CorpusInfo)
    if not context.settings.corpus.ocr or not former or not former.info.ocr:
        return ""
    return f"{former.info.ocr.removesuffix(_GONE)}{_GONE}"


def is_inaccessible(record: FileRecord, inaccessible: Set[tuple[str, str]]) -> bool:
    """Return whether a file lies in one of the (source, path) that a scan could not look at.

    Such a file may still exist, so it does not count as deleted.
    """
    if not inaccessible:
        return False
    folder_ends = [index for index, character in enumerate(record.path) if character == "/"]
    # The source itself, the folders in it above the file, and the file.
    paths = [
        "",
        *(record.path[:end] for end in folder_ends),
        record.path,
    ]
    return any((record.source, path) in inaccessible for path in paths)


def build_record(
    file: ScannedFile,
    content_hash: str,
    chunking: str,
) -> FileRecord:
    """Return the record of a file that is read without a remark."""
    return FileRecord(
        source=file.source,
        path=file.path,
        format=file.format,
        size=file.size,
        mtime_ns=file.mtime_ns,
        content_hash=content_hash,
        state="read",
        reason="",
        chunking=chunking,
        ctime_ns=file.ctime_ns,
    )


def build_stored_document(
    file: ScannedFile,
    content_hash: str,
    read: ReadDocument,
) -> Document:
    """Return the document to store.

    `content_hash`: the hash of the file. A document inside the file has a path that continues the
    file's path, and a hash of its own title and text, since other parts of the file may change.
    """
    if read.external_id is not None:
        path = f"{file.path}#{read.external_id}"
    elif read.member:
        path = f"{file.path}/{read.member}"
    else:
        path = file.path
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
        author=drop_placeholder_names(read.author),
        created=read.created,
        changed=read.changed,
        tags=read.tags,
    )


@dataclass
class ExaminedFile:
    """A file that may have changed, and what reading it gave."""

    file: ScannedFile
    content_hash: str = ""
    # None if the file was not read, since its content is known. For a data set, it only says
    # whether the data set can be read: its documents are read while they are stored, since all
    # together may need more memory than there is.
    outcome: Outcome | None = None

    @property
    def is_long(self) -> bool:
        """Whether storing it may take long."""
        return self.file.format == "beir" or self.length() > _LONG

    def length(self) -> int:
        """Return the number of characters that were read."""
        return self.outcome.length if self.outcome else 0

    def list_parts(self) -> list[PartRecord]:
        """Return the records of what gave no document."""
        if self.outcome is None:
            return []
        left_out = self.outcome.left_out
        return [PartRecord(part.member, part.state, part.kind, part.reason) for part in left_out]

    def read_documents(self) -> Iterator[ReadDocument]:
        """Return the documents.

        Raises UnreadableFileError if the file gave none, and OSError if it cannot be opened.
        """
        outcome = self.outcome or Outcome()
        if outcome.inaccessible:
            raise OSError(0, outcome.reason)
        if outcome.kind:
            raise UnreadableFileError(
                self.file.absolute,
                outcome.reason,
                outcome.kind,
            )
        if self.file.format == "beir":
            return read_data_set(self.file)
        return iter(outcome.documents)

    def summarize_notes(self) -> tuple[str, str]:
        """Return the first note of the documents, and the kind of the file if OCR read it."""
        documents = self.outcome.documents if self.outcome else []
        with_notes = [document for document in documents if document.note]
        if not with_notes:
            return "", ""
        note = with_notes[0].note
        if len(with_notes) > 1:
            note += f"; and {len(with_notes) - 1} more inside it"
        # Notes of these formats are about OCR, those of others about the encoding.
        by_ocr = any(document.format in OCR_FORMATS for document in with_notes)
        return note, KIND_OCR if by_ocr else ""


@dataclass(frozen=True, slots=True)
class Rename:
    """A file that has got another name."""

    # Its records under the former name and under the new one.
    former: FileRecord
    record: FileRecord
    # The titles that are made from the former name and from the new one.
    titles: tuple[str, str]


class PreviousCorpus:
    """The files as they were last read; `chunking` is a mark of how chunks are cut now."""

    def __init__(
        self, context: StageContext, chunking: str, ocr: Tesseract | None, scan: Scan
    ) -> None:
        self._store = context.store
        self._chunking = chunking
        self._chunks_hold_titles = context.settings.corpus.context == "title"
        self.files = self._store.files()
        kinds = _find_retried_kinds(context, ocr)
        # Ids of files that are read again even if they have not changed.
        self._retried: set[int] = set()
        if kinds:
            records = self.files.values()
            self._retried = {record.id for record in records if self._failed_as(record, kinds)}
        self._lost = self._find_lost(scan)

    def find_record(self, file: ScannedFile) -> FileRecord | None:
        """Return the stored record of a file, even if the file was gone."""
        return self.files.get((file.source, file.path))

    def is_changed(self, file: ScannedFile) -> bool:
        """Return whether a file must be hashed, and perhaps read, again.

        Its size, its modification time and the system's time of its last status change decide: a
        file that was renamed to the name of another one may have the same size and modification
        time.
        """
        record = self.find_record(file)
        # A file that could not be opened may be readable now.
        if record is None or record.state not in ("read", "quarantined"):
            return True
        if record.chunking != self._chunking or record.id in self._retried:
            return True
        stored = (
            record.size,
            record.mtime_ns,
            record.ctime_ns,
        )
        return stored != (file.size, file.mtime_ns, file.ctime_ns)

    def is_known(self, record: FileRecord, content_hash: str) -> bool:
        """Return whether a stored record has this content, and nothing more can be read of it."""
        if not content_hash or record.content_hash != content_hash:
            return False
        return record.chunking == self._chunking and record.id not in self._retried

    def is_elsewhere(self, content_hash: str) -> bool:
        """Return whether a lost file had this content, so this may be that file renamed."""
        return content_hash in self._lost

    def take_renamed(self, record: FileRecord) -> Rename | None:
        """Return the lost file that now has the name of `record`, and take it from the lost ones.

        None if no lost file had this content, or if chunks hold a title that changes.
        """
        lost = self._lost.get(record.content_hash, [])
        candidates = [former for former in lost if former.format == record.format]
        if not candidates:
            return None
        former = candidates[0]
        former_title = title_from_name(Path(former.path))
        title = title_from_name(Path(record.path))
        if self._chunks_hold_titles and title != former_title:
            return None
        lost.remove(former)
        del self.files[former.source, former.path]
        renamed = replace(
            record,
            reason=former.reason,
            kind=former.kind,
        )
        return Rename(
            former,
            renamed,
            (former_title, title),
        )

    def _find_lost(self, scan: Scan) -> dict[str, list[FileRecord]]:
        """Return files that were read and are missing from their places, by content."""
        present = {(file.source, file.path) for file in scan.files}
        inaccessible = set(scan.inaccessible)
        lost: dict[str, list[FileRecord]] = {}
        for key, record in self.files.items():
            is_usable = record.state == "read" and record.chunking == self._chunking
            if is_usable and key not in present and not is_inaccessible(record, inaccessible):
                lost.setdefault(record.content_hash, []).append(record)
        return lost

    def _failed_as(self, record: FileRecord, kinds: set[str]) -> bool:
        """Return whether a file, or a part of it, failed in one of these ways."""
        if record.kind in kinds:
            return True
        return any(part.kind in kinds for part in self._store.parts(record.id))


def _find_retried_kinds(context: StageContext, ocr: Tesseract | None) -> set[str]:
    """Return the kinds of files to read again, since passwords, OCR or limits changed.

    They are kinds of failures, and `KIND_OCR` for files that OCR read.
    """
    former = context.store.artifact(CorpusInfo)
    info = former.info if former else CorpusInfo()
    kinds = set()
    for kind, limit in limits_of(context).items():
        if limit > info.limits.get(kind, limit):
            kinds.add(kind)
    if info.passwords != passwords_mark(context):
        kinds.add("encrypted")
    # If Tesseract is gone, what it read stays.
    is_tesseract_gone = ocr is None and context.settings.corpus.ocr
    if not is_tesseract_gone and info.ocr != ocr_mark(context, ocr):
        kinds |= {"needs OCR", KIND_OCR}
    return kinds


def forget_gone(
    context: StageContext,
    records: dict[tuple[str, str], FileRecord],
    scan: Scan,
    sources: Container[str] | None = None,
) -> int:
    """Remove files that no longer exist from search; return how many of them had been read.

    To be called within a transaction. `sources`: only files of these sources are considered; None
    stands for all sources, including former ones. Files that the system does not let us look at are
    kept.
    """
    present = {(file.source, file.path) for file in scan.files}
    inaccessible = set(scan.inaccessible)
    gone: list[FileRecord] = []
    for key, record in records.items():
        if key in present or record.state == "gone" or is_inaccessible(record, inaccessible):
            continue
        if sources is None or record.source in sources:
            gone.append(record)
    for record in gone:
        context.store.forget_file(record.id)
    if gone:
        context.store.mark_incomplete(CorpusInfo)
    return sum(record.state == "read" for record in gone)


def no_documents(
    what: str,
    skipped: list[Skipped],
    context: StageContext,
) -> NoDocumentsError:
    """Return the error of a project without anything to search.

    It names the first few files that were left out, and why.
    """
    if skipped:
        reasons = [f"{item.path}: {item.reason}" for item in skipped[:_MAX_NAMED]]
        if len(skipped) > _MAX_NAMED:
            reasons.append(f"and {len(skipped) - _MAX_NAMED} more")
        why = f"Skipped: {'; '.join(reasons)}."
    else:
        why = "The folder is empty, or no file matches corpus.include."
    to_do = (
        "Put documents that hold text there (text, office files, PDF, emails, or a BEIR folder), or"
        " name another folder in project.toml."
    )
    if context.store.has_chunks():
        to_do += " What was searchable before stays so."
    return NoDocumentsError(what, why, to_do)


def hash_file(path: Path) -> str:
    """Return the hash of a file's content.

    Raises OSError, also if a pipe or device has replaced the file.
    """
    # Opening a pipe would wait for its writer; Windows has neither flag.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = open_private(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file any more")
        return hashlib.file_digest(file, "sha256").hexdigest()
