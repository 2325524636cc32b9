"""Bring documents and chunks of project.db in line with the files that a scan found."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from engine.cluster.nodes import cluster_address
from engine.core.records import Chunk, Document, Kind, ReadDocument
from engine.corpus.formats import MAX_FILE, UnreadableFileError
from engine.corpus.formats.locked import PASSWORDS_ADVICE
from engine.corpus.ingest.data_set import check_data_set
from engine.corpus.ingest.previous import (
    ExaminedFile,
    PreviousCorpus,
    Rename,
    build_record,
    build_stored_document,
    forget_gone,
    hash_file,
    no_documents,
    passwords,
)
from engine.corpus.ingest.progress import FileProgress
from engine.corpus.sandbox.nodes import NodesPool
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.sandbox.tesseract import Tesseract
from engine.corpus.scan.formats import STREAMED
from engine.corpus.scan.scan import Scan, ScannedFile, Skipped, system_reason
from engine.corpus.text.document_queries import queries_in
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.project.store.files import AGAIN, FileRecord, PartRecord

# Files of this many bytes or more are read after the others, the smaller first.
LARGE_FILE = 2**20
# Documents of one file that are cut and written together.
_DOCUMENTS_PER_BLOCK = 512
_LESS_CONFINED = (
    "Windows did not start a reading process that can open nothing but its document ({reason})."
    " Documents are read by processes that cannot change your files, but may read other files of"
    " yours, and to which the network is not refused. 'engine doctor' shows what is refused."
)
Write = Callable[[], None]
"""A change of the database, to be made within a transaction."""


@dataclass(frozen=True, slots=True)
class _CutDocument:
    """A document that is new or has changed, with its chunks."""

    # As it is stored.
    document: Document
    # As its reader returned it.
    read: ReadDocument
    chunks: list[Chunk]


@dataclass(frozen=True, slots=True)
class ReadingPace:
    """How often the reading writes to the database, and what it reports."""

    # A transaction ends after so many files or seconds.
    files_per_transaction: int = 50
    seconds_per_transaction: float = 1.0
    # In a new project, what was read in this time is indexed before the rest is read.
    first_seconds: float = 20.0
    # A file is named in the progress once it takes so long.
    slow_seconds: float = 5.0
    # Warnings name the first unread files; `engine documents` lists all.
    max_named: int = 20


class _IndexFirst(Exception):
    """The signal that what was read must be indexed before the rest is read."""


class Ingest:
    """Reads the files of a scan that are new or have changed, and stores what they hold.

    `tokenizer`: the tokenizer.json by which chunks are cut. `chunking`: a mark that changes with
    the way in which chunks are cut. `ocr`: the program for pictures, None if they are not read.
    """

    def __init__(
        self,
        context: StageContext,
        tokenizer: Path,
        chunking: str,
        ocr: Tesseract | None,
        pace: ReadingPace,
    ) -> None:
        from engine.corpus.chunking.chunking import Chunker

        corpus = context.settings.corpus
        self._context = context
        self._store = context.store
        self._chunking = chunking
        self._ocr = ocr
        self._pace = pace
        self._chunker = Chunker(
            tokenizer,
            chunk_tokens=corpus.chunk_tokens,
            overlap_sentences=corpus.overlap_sentences,
            context=corpus.context,
            check=lambda: self.progress.check(),
        )
        # Counts of files by what became of them ("read", "unread" and so on), and "new_chunks".
        self._tally: Counter[str] = Counter()
        # Whether reading pauses for the index: a new project is searched before all is read.
        self._pauses_for_index = (
            context.store.artifact(LexicalInfo) is None or context.store.files_left() > 0
        )
        self.progress = FileProgress(
            context,
            0,
            0,
            pace.slow_seconds,
        )
        # Files that could not be opened, and files without text with what was left out in them.
        # What is stored of such files stays until all files are read.
        self._unopened: list[FileRecord] = []
        self._unreadable: list[tuple[FileRecord, list[PartRecord]]] = []

    def read_changes(self, scan: Scan) -> Counter[str]:
        """Read what is new or changed, a batch of files per transaction, then remove what is gone.

        If nothing can be searched yet, this ends after a while, and later each time that the number
        of chunks has doubled, so that the chunks can be indexed. Another call reads further files.

        Raises NoDocumentsError if nothing would be left to search. Files that still exist then keep
        what was read of them before.
        """
        self._previous = PreviousCorpus(
            self._context,
            self._chunking,
            self._ocr,
            scan,
        )
        if self._store.files_left():
            states = [record.state for record in self._previous.files.values()]
            self._tally["unread"] = states.count("quarantined") + states.count("skipped")
        changed = self._find_changed(scan)
        # If the reading pauses for the index, its progress goes on from where the last call ended.
        done = len(scan.files) - len(changed) if self._pauses_for_index else 0
        self._pool = self._build_pool(on_cluster=bool(changed) and bool(cluster_address()))
        try:
            self._read_all(changed, done)
        finally:
            self._pool.close()
            # A run that was stopped gets this warning, too, as it has read files.
            if changed and self._pool.lockdown_failure:
                self._context.warn(_LESS_CONFINED.format(reason=self._pool.lockdown_failure))
        unnamed = self._tally["unread"] - self._pace.max_named
        if unnamed > 0 and not self.progress.left:
            command = f"engine documents {self._context.project.argument}"
            self._context.warn(f"{unnamed:,} more not read: '{command}' lists all.")
        if self._tally["encrypted"] and not self._context.settings.corpus.passwords_file:
            self._context.warn(PASSWORDS_ADVICE)
        self._remove_gone(scan)
        return self._tally

    def _find_changed(self, scan: Scan) -> list[ScannedFile]:
        """Return the files to read, large ones last; count the unchanged ones that were read."""
        changed: list[ScannedFile] = []
        for file in scan.files:
            if self._previous.is_changed(file):
                changed.append(file)
            elif self._previous.files[file.source, file.path].state == "read":
                self._tally["unchanged"] += 1
        # Small files, of which all keys are 0, stay in the order of their paths.
        changed.sort(key=lambda file: file.size // LARGE_FILE)
        return changed

    def _remove_gone(self, scan: Scan) -> None:
        """Remove what was read of files that are gone or have become unreadable.

        Raises NoDocumentsError if nothing would be left to search.
        """
        with self._store.transaction():
            self._tally["removed"] += forget_gone(
                self._context,
                self._previous.files,
                scan,
            )
            # What is stored of files that could not be opened stays, and they are tried again.
            for record in self._unopened:
                self._store.put_file(record)
        unread = self._unopened + [record for record, _ in self._unreadable]
        left_out = [Skipped(record.path, record.reason) for record in unread] + scan.skipped
        # The error says what stays searchable, so it is built before unreadable files are dropped.
        nothing_left = no_documents(
            "None of the files could be read.",
            left_out,
            self._context,
        )
        with self._store.transaction():
            self._drop_unreadable()
            if not self._store.has_chunks():
                raise nothing_left

    def _build_pool(self, *, on_cluster: bool) -> Pool:
        """Return a pool of reading processes on this machine, or also on the cluster's nodes."""
        context = self._context
        corpus = context.settings.corpus
        processes = corpus.reading_processes or min(8, os.cpu_count() or 1)
        limits = Limits(
            memory=corpus.reading_memory_mb * 2**20,
            seconds=corpus.reading_seconds,
            ocr_seconds=corpus.ocr_seconds,
        )
        if not on_cluster:
            return Pool(
                processes,
                limits,
                passwords(context),
                self._ocr,
            )
        pool = NodesPool(
            processes,
            limits,
            passwords(context),
            self._ocr,
            context.check_stop,
        )
        context.report_choice(
            "reading",
            f"on {pool.nodes.count} nodes",
            "files' bytes are sent to the cluster (--ray)",
        )
        return pool

    def _read_all(self, changed: list[ScannedFile], done: int) -> None:
        """Read and write what changed, or a part of it if that must be indexed first.

        `done`: the number of files that already count as done.
        """
        batch: list[ExaminedFile] = []
        pace = self._pace
        total = done + len(changed)
        progress = FileProgress(
            self._context,
            done,
            total,
            pace.slow_seconds,
        )
        self.progress = progress
        started = time.monotonic()
        last_written = started
        chunks_before = self._store.count("chunks") if self._pauses_for_index else 0

        def write_batch() -> None:
            nonlocal last_written
            if batch:
                self._write(batch)
                progress.add(len(batch))
                batch.clear()
            last_written = time.monotonic()

        def after_each() -> None:
            """Report progress and write what is due.

            This is called after each file, and again and again while the next one is read.
            """
            examined_files = progress.done - done + len(batch)
            if examined_files < len(changed):
                progress.turn_to(changed[examined_files].path)
            else:
                progress.turn_to("")
            progress.check()
            is_overdue = time.monotonic() - last_written > pace.seconds_per_transaction
            if is_overdue or len(batch) >= pace.files_per_transaction:
                write_batch()
            if self._pauses_for_index:
                has_doubled = self._tally["new_chunks"] >= max(1, chunks_before)
                if has_doubled and time.monotonic() - started >= pace.first_seconds:
                    raise _IndexFirst

        with suppress(_IndexFirst):
            for examined in self._pool.map(self._examine, changed, after_each, ExaminedFile.length):
                batch.append(examined)
                after_each()
        write_batch()

    def _examine(self, file: ScannedFile) -> ExaminedFile:
        """Hash a file, and read it unless its content is known.

        This runs in a thread of the pool, so it does not touch the store.
        """
        if file.size > MAX_FILE and file.format not in STREAMED | {"beir"}:
            too_large = Outcome(kind="too large", reason=f"larger than {MAX_FILE // 2**20} MB")
            return ExaminedFile(file, outcome=too_large)
        try:
            content_hash = hash_file(file.absolute)
        except OSError as error:
            unopened = Outcome(reason=system_reason(error), inaccessible=True)
            return ExaminedFile(file, outcome=unopened)
        examined = ExaminedFile(file, content_hash)
        former = self._previous.find_record(file)
        is_known = former is not None and self._previous.is_known(former, content_hash)
        may_be_renamed = self._previous.is_elsewhere(content_hash)
        if not is_known and not may_be_renamed:
            self._read(examined)
        return examined

    def _read(self, examined: ExaminedFile) -> None:
        """Read a file; of a data set, only look whether it can be read."""
        file = examined.file
        if file.format == "beir":
            examined.outcome = check_data_set(file, lambda: self._pool.is_closed)
        else:
            examined.outcome = self._pool.read(file.absolute, file.format)

    def _write(self, batch: list[ExaminedFile]) -> None:
        """Bring the database in line with files that were examined.

        Documents are cut before the transaction begins, since other writers wait for its end no
        longer than `BUSY_SECONDS`. A long file takes a transaction for each block of its documents.
        """
        writes: list[Write] = []
        for examined in batch:
            self.progress.turn_to(examined.file.path)
            for write in self._plan(examined):
                writes.append(write)
                if examined.is_long:
                    self._commit(writes)
        self._commit(writes)

    def _commit(self, writes: list[Write]) -> None:
        """Make all changes in one transaction, and empty the list."""
        if not writes:
            return
        with self._store.transaction():
            for write in writes:
                write()
        writes.clear()

    def _plan(self, examined: ExaminedFile) -> Iterator[Write]:
        """Yield the changes of the database for one file, which is read and cut between them."""
        former = self._previous.find_record(examined.file)
        if former and former.state == "gone":
            former = None
        record = build_record(
            examined.file,
            examined.content_hash,
            self._chunking,
        )
        if examined.outcome and examined.outcome.inaccessible:
            yield partial(
                self._keep_inaccessible,
                record,
                former,
                examined.outcome.reason,
            )
            return
        if former and self._previous.is_known(former, record.content_hash):
            yield partial(
                self._store_known,
                record,
                former,
            )
            return
        # Only a file whose name is new can be a lost file under another name.
        renamed = None if former else self._previous.take_renamed(record)
        if renamed:
            yield partial(self._store_renamed, renamed)
            return
        if not examined.outcome:
            # It has the content of a lost file, but is not that file under another name.
            self._read(examined)
        yield from self._plan_content(examined, record, former)

    def _store_known(self, record: FileRecord, former: FileRecord) -> None:
        """Store the times of a file whose content has not changed."""
        if former.state != "skipped":
            record = replace(
                record,
                reason=former.reason,
                kind=former.kind,
            )
        if former.state == "quarantined":
            record = replace(record, state="quarantined")
        else:
            self._tally["unchanged"] += 1
        self._store.set_modified(self._store.put_file(record), record.mtime_ns / 1e9)

    def _store_renamed(self, renamed: Rename) -> None:
        """Store what is known of a file under its new name."""
        self._store.move_file(
            renamed.former,
            renamed.record,
            renamed.titles,
        )
        self._tally["renamed"] += 1

    def _plan_content(
        self, examined: ExaminedFile, record: FileRecord, former: FileRecord | None
    ) -> Iterator[Write]:
        """Yield the changes of the database for a file's documents, or the note why it has none."""
        try:
            yield from self._plan_documents(examined, record, former)
        except UnreadableFileError as error:
            yield partial(
                self._store_unreadable,
                examined,
                record,
                former,
                error,
            )
        except OSError as error:
            yield partial(
                self._keep_inaccessible,
                record,
                former,
                system_reason(error),
            )

    def _store_unreadable(
        self,
        examined: ExaminedFile,
        record: FileRecord,
        former: FileRecord | None,
        error: UnreadableFileError,
    ) -> None:
        """Note a file without text; what is stored of it stays until all files are read."""
        reason = error.why or error.what
        unread = replace(
            record,
            state="quarantined",
            reason=reason,
            kind=error.kind,
        )
        parts = examined.list_parts()
        self._unreadable.append((unread, parts))
        if former is None or not self._store.documents_of(former.id):
            self._store.put_parts(self._store.put_file(unread), parts)
        self._report_unread(unread, former)

    def _keep_inaccessible(
        self, record: FileRecord, former: FileRecord | None, reason: str
    ) -> None:
        """Keep what is stored of a file that cannot be opened, and try it again next time.

        The new reason replaces the remark that the last reading left, if any. To get the remark
        back, the hash of such a file is cleared: next time it is read even if its content is the
        same.
        """
        stored = former or replace(record, content_hash="", chunking="")
        has_remark = bool(stored.reason or stored.kind)
        if stored.state == "quarantined" or (stored.state == "read" and has_remark):
            stored = replace(stored, content_hash="")
        unread = replace(
            stored,
            state="skipped",
            reason=reason,
            kind="no access",
        )
        self._unopened.append(unread)
        self._report_unread(unread, former)

    def _report_unread(self, record: FileRecord, former: FileRecord | None) -> None:
        """Count a file that was not read, and warn of it, unless the last run did so already."""
        if former and former.state == record.state and former.reason == record.reason:
            return
        self._tally["unread"] += 1
        self._tally["encrypted"] += record.kind == "encrypted"
        if self._tally["unread"] <= self._pace.max_named:
            self._context.warn(f"{record.path} was not read: {record.reason}")

    def _plan_documents(
        self, examined: ExaminedFile, record: FileRecord, former: FileRecord | None
    ) -> Iterator[Write]:
        """Yield the changes of the database for the documents of one file, a block at a time.

        Raises UnreadableFileError if the file gave none, and OSError if it cannot be opened.
        """
        stored = self._store.documents_of(former.id) if former else {}
        # Documents are compared with the stored ones only if these are cut in the same way.
        reusable = former is not None and former.chunking == self._chunking
        # Until its last block is written, a file counts as changed: the next run reads it again.
        unfinished = replace(
            record, content_hash="", mtime_ns=AGAIN, chunking=(former or record).chunking
        )
        documents = examined.read_documents()
        block = list(itertools.islice(documents, _DOCUMENTS_PER_BLOCK))
        # One block is read ahead, to know the last one.
        while next_block := list(itertools.islice(documents, _DOCUMENTS_PER_BLOCK)):
            changed = self._cut(
                examined.file,
                record,
                block,
                stored,
                reusable=reusable,
            )
            yield partial(
                self._store_block,
                unfinished,
                changed,
            )
            block = next_block
        changed = self._cut(
            examined.file,
            record,
            block,
            stored,
            reusable=reusable,
        )
        gone = [document_id for document_id, _ in stored.values()]
        yield partial(
            self._store_last_block,
            examined,
            record,
            former,
            changed,
            gone,
        )

    def _cut(
        self,
        file: ScannedFile,
        record: FileRecord,
        block: list[ReadDocument],
        stored: dict[str, tuple[int, str]],
        *,
        reusable: bool,
    ) -> list[_CutDocument]:
        """Return the documents of a block that differ from the `stored` ones, with their chunks.

        `stored`: path → (id, content hash) of the documents that are stored of the file; those in
        the block are removed from it. `reusable`: whether the stored chunks were cut in the same
        way as now, so that a document with the same content keeps its chunks.
        """
        changed: list[tuple[Document, ReadDocument]] = []
        for read_document in block:
            document = build_stored_document(
                file,
                record.content_hash,
                read_document,
            )
            document_id, content_hash = stored.pop(document.path, (0, ""))
            is_same = document_id != 0 and content_hash == document.content_hash
            if not (is_same and reusable):
                changed.append((replace(document, id=document_id), read_document))
        chunked = self._chunker.chunk_many([read_document for _, read_document in changed])
        return [
            _CutDocument(document, read_document, chunks)
            for (document, read_document), chunks in zip(changed, chunked, strict=True)
        ]

    def _store_block(self, record: FileRecord, changed: list[_CutDocument]) -> None:
        """Store some documents of a file."""
        file_id = self._put_record(record)
        self._tally["new_chunks"] += self._put_documents(file_id, changed)

    def _store_last_block(
        self,
        examined: ExaminedFile,
        record: FileRecord,
        former: FileRecord | None,
        changed: list[_CutDocument],
        gone: list[int],
    ) -> None:
        """Store the last documents of a file, and drop those with the ids `gone`, which it lost.

        If nothing to search would be left of the file, what was stored of it stays.
        """
        note, kind = examined.summarize_notes()
        parts = examined.list_parts()
        try:
            with self._store.savepoint():
                file_id = self._put_record(replace(record, reason=note, kind=kind))
                new_chunks = self._put_documents(file_id, changed)
                for document_id in gone:
                    self._store.drop_document(document_id)
                if not self._store.has_chunks(file_id):
                    raise _explain_empty(examined.file, parts)
                self._store.put_parts(file_id, parts)
        except UnreadableFileError as error:
            self._store_unreadable(
                examined,
                record,
                former,
                error,
            )
        else:
            self._tally["read"] += 1
            self._tally["new_chunks"] += new_chunks

    def _put_record(self, record: FileRecord) -> int:
        """Store the record of a file whose documents change, and return its id."""
        self._store.mark_incomplete(CorpusInfo)
        return self._store.put_file(record)

    def _put_documents(self, file_id: int, changed: list[_CutDocument]) -> int:
        """Store documents with their chunks and queries; return the number of new chunks."""
        new_chunks = 0
        for cut_document in changed:
            document_id = self._store.put_document(file_id, cut_document.document)
            new_chunks += self._store.replace_chunks(document_id, cut_document.chunks)
            chunks = self._store.chunks_of(document_id)
            queries = queries_in(
                cut_document.read,
                cut_document.document.path,
                chunks,
            )
            self._store.replace_document_queries(document_id, queries)
        return new_chunks

    def _drop_unreadable(self) -> None:
        """Remove the documents of files that hold no text any more, within a transaction."""
        for record, parts in self._unreadable:
            file_id = self._store.put_file(record)
            self._store.put_parts(file_id, parts)
            for document_id, _ in self._store.documents_of(file_id).values():
                self._store.drop_document(document_id)
        if self._unreadable:
            self._store.mark_incomplete(CorpusInfo)


def _explain_empty(file: ScannedFile, parts: list[PartRecord]) -> UnreadableFileError:
    """Return the error of a file without text: the reason of the first part left out, if any."""
    if parts:
        reason = f"{parts[0].path}: {parts[0].reason}"
        return UnreadableFileError(
            file.absolute,
            reason,
            cast(Kind, parts[0].kind),
        )
    return UnreadableFileError(file.absolute, "empty", "empty")
