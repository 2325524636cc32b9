"""Files and documents as the database keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Set

from engine.core.records import Document, ReadDocument
from engine.corpus.scan.scan import ScannedFile
from engine.corpus.text.metadata import named
from engine.project.store.records import FileRecord


def is_closed(record: FileRecord, closed: Set[tuple[str, str]]) -> bool:
    """Whether a file lies where a scan could not look: (source, path) of files and folders."""
    if not closed:
        return False
    ends = (at for at, sign in enumerate(record.path) if sign == "/")
    return any((record.source, place) in closed for place in ("", record.path, *(record.path[:end] for end in ends)))


def system_reason(error: OSError) -> str:
    """What the system says of a file that it does not let us read."""
    return (error.strerror or str(error)).lower()


def record_of(
    file: ScannedFile, content_hash: str, state: str, reason: str, chunking: str, kind: str = ""
) -> FileRecord:
    """What is stored of a file."""
    return FileRecord(
        file.source, file.path, file.format, file.size, file.mtime_ns, content_hash, state, reason, chunking, kind=kind,
        ctime_ns=file.ctime_ns,
    )  # fmt: skip


def document_of(file: ScannedFile, content_hash: str, read: ReadDocument) -> Document:
    """What is stored of a document; of what lies inside a file, its path goes on within."""
    path = f"{file.path}/{read.member}" if read.member else file.path
    if read.external_id is not None:
        path = f"{file.path}#{read.external_id}"
    if path != file.path:
        content_hash = hashlib.sha256(f"{read.title}\0{read.text}".encode()).hexdigest()
    return Document(
        path=path, source=file.source, format=read.format, title=read.title, text=read.text, content_hash=content_hash,
        size=file.size, modified=file.mtime_ns / 1e9, external_id=read.external_id,
        author=named(read.author), created=read.created, changed=read.changed,
    )  # fmt: skip
