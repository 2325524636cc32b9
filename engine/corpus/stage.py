"""Stage `ingest`: files → documents → chunks in project.db. Reads only what changed since the last run."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.corpus.beir import read_beir_judgments
from engine.corpus.imports import read_judgments, restore_marked
from engine.corpus.readers import ReadDocument, UnreadableFileError, reader_for
from engine.corpus.scan import Scan, ScannedFile, Skipped, scan
from engine.errors import NoDocumentsError, UsageError
from engine.records import Document
from engine.stage import StageContext, View, fingerprint
from engine.store import Artifact, FileRecord

VERSION = 2
ARTIFACT = "corpus"
ALWAYS = True  # only a look at the folder tells whether anything changed
FILES_PER_TRANSACTION = 50
SKIPPED_KEPT = 1000  # names of files left out that 'engine status' can show


def inputs(view: View) -> dict[str, Any]:
    """Everything but the files themselves, which the stage compares one by one."""
    return {"corpus": view.settings.corpus.model_dump(exclude={"drift"}), "model": view.settings.encoder.model}


@dataclass
class Tally:
    """What one ingest did."""

    read: int = 0
    unchanged: int = 0
    removed: int = 0
    new_chunks: int = 0


def run(context: StageContext) -> dict[str, Any]:
    """Scan the sources and bring documents and chunks in line with them.

    Raises UsageError without sources, InputError for a source that is missing, NoDocumentsError when nothing is
    readable: then the project keeps what it had.
    """
    from engine.encoders import resolve_model

    sources = context.project.sources(context.settings)
    if not sources:
        raise UsageError(
            "The project names no documents.", "corpus.paths in project.toml is empty.", "Add a folder to it."
        )
    found = scan(sources, context.settings.corpus.include, context.settings.corpus.exclude)
    _refuse_empty(found, sources)
    found.files = [replace(file, source=_movable(file.source, context.project.path)) for file in found.files]
    found.closed = [(_movable(source, context.project.path), path) for source, path in found.closed]
    model = resolve_model(context.settings.encoder.model)
    chunking = fingerprint(
        version=VERSION,
        model=model.fingerprint,
        **context.settings.corpus.model_dump(include={"chunk_tokens", "overlap_sentences", "context"}),
    )
    tally = Ingest(context, model.tokenizer_file, chunking).bring_in_line(found)
    judged = _import_judgments(context, found.files)
    info = {"chunks": context.store.corpus_fingerprint(), "skipped": _told_skipped(context, found.skipped)}
    artifact = Artifact(ARTIFACT, context.fingerprint, "", 0.0, info)
    context.store.put_artifact(artifact)
    counts = context.store.counts()
    return {
        "files_read": tally.read, "files_unchanged": tally.unchanged, "files_removed": tally.removed,
        "files_skipped": counts["skipped"] + len(found.skipped), "new_chunks": tally.new_chunks, "documents": counts["documents"],
        "chunks": counts["chunks"], "judged_queries": judged,
    }  # fmt: skip


def _refuse_empty(found: Scan, sources: list[Path]) -> None:
    if not found.files:
        places = ", ".join(str(source) for source in sources)
        why = _reasons(found.skipped) if found.skipped else "The folder is empty, or no file matches corpus.include."
        raise _no_documents(f"No readable documents in {places}.", why)


def _no_documents(what: str, why: str) -> NoDocumentsError:
    return NoDocumentsError(
        what,
        why,
        "Put documents that hold text there (.txt, .md, .html, or a BEIR folder), or name another folder in "
        "project.toml. What was searchable before stays so.",
    )


def _movable(source: str, project: Path) -> str:
    """A source inside the project folder is named relative to it, so that the project can be moved."""
    return Path(source).relative_to(project).as_posix() if Path(source).is_relative_to(project) else source


def _reasons(skipped: list[Skipped]) -> str:
    shown = "; ".join(f"{item.path}: {item.reason}" for item in skipped[:5])
    more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    return f"Skipped: {shown}{more}."


def _told_skipped(context: StageContext, skipped: list[Skipped]) -> dict[str, str]:
    """Path → reason of the files that were left out unread; what is new about them is told, by reason."""
    left_out = {item.path: item.reason for item in skipped[:SKIPPED_KEPT]}
    former = context.store.artifact(ARTIFACT)
    if left_out and (former is None or former.info.get("skipped") != left_out):
        reasons = Counter(item.reason for item in skipped).most_common()
        told = ", ".join(f"{reason} ({count})" for reason, count in reasons)
        context.warn(f"{len(skipped)} left out: {told}.")
    return left_out


class Ingest:
    """Compares scanned files with what the database knows, and reads the difference."""

    def __init__(self, context: StageContext, tokenizer: Path, chunking: str) -> None:
        from engine.corpus.chunking import Chunker

        corpus = context.settings.corpus
        self._context, self._store, self._chunking = context, context.store, chunking
        self._chunker = Chunker(
            tokenizer,
            chunk_tokens=corpus.chunk_tokens,
            overlap_sentences=corpus.overlap_sentences,
            context=corpus.context,
        )
        self._tally = Tally()
        self._touched = 0
        self._known: dict[tuple[str, str], FileRecord] = {}
        self._unopened: list[FileRecord] = []
        self._unreadable: list[FileRecord] = []

    def bring_in_line(self, found: Scan) -> Tally:
        """Read what is new or changed, a batch of files per transaction; then forget what is gone.

        Raises NoDocumentsError, with nothing forgotten, when nothing would be left to search.
        """
        self._known = self._store.files()
        changed = [file for file in found.files if self._is_changed(file, self._known.get((file.source, file.path)))]
        for start in range(0, len(changed), FILES_PER_TRANSACTION):
            self._context.check_stop()
            with self._store.transaction():
                for file in changed[start : start + FILES_PER_TRANSACTION]:
                    self._read(file)
            self._context.progress(min(start + FILES_PER_TRANSACTION, len(changed)), len(changed), "files")
        self._tally.unchanged = len(found.files) - len(changed) + self._touched
        with self._store.transaction():
            self._forget(found)
            if not self._store.counts()["chunks"]:
                unread = [Skipped(record.path, record.reason) for record in (*self._unopened, *self._unreadable)]
                raise _no_documents("None of the files could be read.", _reasons(unread + found.skipped))
        return self._tally

    def _is_changed(self, file: ScannedFile, record: FileRecord | None) -> bool:
        return (
            record is None
            or record.state != "read"  # one that was skipped may be open to us now, whatever its time stamp says
            or record.chunking != self._chunking
            or (record.size, record.mtime_ns) != (file.size, file.mtime_ns)
        )

    def _read(self, file: ScannedFile) -> None:
        record = self._known.get((file.source, file.path))
        former = record if record and record.state != "gone" else None
        try:
            content_hash = _hash_file(file.absolute)
            if former and (former.content_hash, former.chunking) == (content_hash, self._chunking):
                self._store.put_file(_record(file, content_hash, "read", "", self._chunking))
                self._touched += 1
                return
            with self._store.savepoint():
                new_chunks = self._keep(file, content_hash, former)
        except UnreadableFileError as error:
            self._unreadable.append(_record(file, "", "skipped", error.why or error.what, self._chunking))
            self._tell_skipped(self._unreadable[-1], former)
        except OSError as error:
            unread = former or _record(file, "", "", "", "")
            reason = (error.strerror or str(error)).lower()
            self._unopened.append(replace(unread, state="skipped", reason=reason))
            self._tell_skipped(self._unopened[-1], former)
        else:
            self._tally.read += 1
            self._tally.new_chunks += new_chunks

    def _tell_skipped(self, record: FileRecord, former: FileRecord | None) -> None:
        if former is None or (former.state, former.reason) != (record.state, record.reason):
            self._context.warn(f"{record.path} was skipped: {record.reason}")

    def _keep(self, file: ScannedFile, content_hash: str, record: FileRecord | None) -> int:
        """Bring the documents of one file in line; returns how many chunks are new."""
        self._store.mark_incomplete(ARTIFACT)
        file_id = self._store.put_file(_record(file, content_hash, "read", "", self._chunking))
        former = self._store.documents_of(file_id)
        same_chunking = record is not None and record.chunking == self._chunking
        new_chunks = 0
        for block in _blocks(reader_for(file.format).read(file.absolute), 512):
            new_chunks += self._keep_block(file, file_id, content_hash, block, former, same_chunking)
        for document_id, _ in former.values():
            self._store.drop_document(document_id)
        if not self._store.has_chunks(file_id):
            raise UnreadableFileError(file.absolute, "empty")
        return new_chunks

    def _keep_block(
        self, file: ScannedFile, file_id: int, content_hash: str, block: list[ReadDocument],
        former: dict[str, tuple[int, str]], same_chunking: bool,
    ) -> int:  # fmt: skip
        todo: list[tuple[Document, ReadDocument]] = []
        for read in block:
            document = _document(file, content_hash, read)
            row, old_hash = former.pop(document.path, (0, ""))
            if row and same_chunking and old_hash == document.content_hash:
                continue
            todo.append((replace(document, id=row), read))
        new_chunks = 0
        for (document, _), chunks in zip(todo, self._chunker.chunk_many([read for _, read in todo]), strict=True):
            new_chunks += self._store.replace_chunks(self._store.put_document(file_id, document), chunks)
        return new_chunks

    def _forget(self, found: Scan) -> None:
        """Within a transaction: files that are gone leave search, and so does what a file that holds no text any more
        said before. What the system does not let us open stays as it was, and is tried again next time."""
        present = {(file.source, file.path) for file in found.files}
        gone = [
            record
            for key, record in self._known.items()
            if key not in present and record.state != "gone" and not _is_closed(record, found.closed)
        ]
        for record in gone:
            self._store.forget_file(record.id)
            self._tally.removed += record.state == "read"
        for record in self._unopened:
            self._store.put_file(record)
        for record in self._unreadable:
            file_id = self._store.put_file(record)
            for document_id, _ in self._store.documents_of(file_id).values():
                self._store.drop_document(document_id)
        if gone or self._unreadable:
            self._store.mark_incomplete(ARTIFACT)


def _is_closed(record: FileRecord, closed: list[tuple[str, str]]) -> bool:
    return any(
        source == record.source and (path in ("", record.path) or record.path.startswith(f"{path}/"))
        for source, path in closed
    )


def _record(file: ScannedFile, content_hash: str, state: str, reason: str, chunking: str) -> FileRecord:
    return FileRecord(
        file.source, file.path, file.format, file.size, file.mtime_ns, content_hash, state, reason, chunking
    )


def _document(file: ScannedFile, content_hash: str, read: ReadDocument) -> Document:
    if read.external_id is None:
        path = file.path
    else:
        path = f"{file.path}#{read.external_id}"
        content_hash = hashlib.sha256(f"{read.title}\0{read.text}".encode()).hexdigest()
    return Document(
        path=path, source=file.source, format=read.format, title=read.title, text=read.text, content_hash=content_hash,
        size=file.size, modified=file.mtime_ns / 1e9, external_id=read.external_id,
    )  # fmt: skip


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _blocks(items: Iterable[ReadDocument], size: int) -> Iterator[list[ReadDocument]]:
    iterator = iter(items)
    while block := list(itertools.islice(iterator, size)):
        yield block


def _import_judgments(context: StageContext, files: list[ScannedFile]) -> int:
    """Judgments that lie beside a BEIR corpus, and those of the imports folder when the database is new."""
    restore_marked(context.project, context.store)
    known = {query.key for query in context.store.judged()}
    for path in sorted((context.project.path / "imports").glob("judgments-*.jsonl")):
        fresh = [query for query in read_judgments(path) if query.key not in known]
        if fresh:
            context.store.put_judged(fresh)
    for file in files:
        folder = file.absolute.parent
        if file.format == "beir" and (folder / "queries.jsonl").is_file() and (folder / "qrels" / "test.tsv").is_file():
            judged = read_beir_judgments(folder)
            context.store.put_judged(judged)
            context.choose("judgments", len(judged), f"queries.jsonl and qrels/test.tsv lie beside {file.path}")
    return context.store.counts()["judged_queries"]
