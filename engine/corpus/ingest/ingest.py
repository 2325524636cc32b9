"""Bring documents and chunks of project.db in line with the files that a scan found."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from engine.cluster.nodes import cluster_address
from engine.core.records import Document, Kind, ReadDocument
from engine.corpus.formats import MAX_FILE, UnreadableFileError
from engine.corpus.ingest.data_set import read_data_set
from engine.corpus.ingest.former import (
    BY_OCR,
    Former,
    Looked,
    document_of,
    forget_gone,
    hash_file,
    no_documents,
    passwords,
    record_of,
)
from engine.corpus.ingest.progress import FileProgress
from engine.corpus.sandbox.nodes import NodesPool
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.sandbox.tesseract import Tesseract
from engine.corpus.scan.formats import PICTURES, STREAMED
from engine.corpus.scan.scan import Scan, ScannedFile, Skipped, system_reason
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.project.store.files import FileRecord, PartRecord
from engine.written_queries.document_queries import queries_in

FILES_PER_TRANSACTION = 50
SECONDS_PER_TRANSACTION = 1.0
# Number of unread files that a run or a first reading names; `engine documents` lists all.
MAX_NAMED = 20
# In a new project, what was read in this time is indexed before the rest is read.
FIRST_SECONDS = 20.0
# Files of this many bytes or more are read after the others, the smaller first.
_LARGE = 2**20
# The notes of these formats are about OCR, those of others about the encoding.
_BY_OCR = frozenset({"pdf", *PICTURES.values()})


class _Enough(Exception):
    """The signal that what was read must be indexed before the rest is read."""


class Ingest:
    """A comparison of scanned files with the database, which reads the difference."""

    def __init__(
        self, context: StageContext, tokenizer: Path, chunking: str, ocr: Tesseract | None
    ) -> None:
        from engine.corpus.chunking.chunking import Chunker

        corpus = context.settings.corpus
        self._context = context
        self._store = context.store
        self._chunking = chunking
        self._ocr = ocr
        self._chunker = Chunker(
            tokenizer,
            chunk_tokens=corpus.chunk_tokens,
            overlap_sentences=corpus.overlap_sentences,
            context=corpus.context,
            check=lambda: self.progress.check(),
        )
        # Counts of files, and of new chunks.
        self._tally = Counter[str]()
        self._is_first = (
            context.store.artifact(LexicalInfo) is None or context.store.files_left() > 0
        )
        self.progress = FileProgress(context, 0, 0)
        self._unopened: list[FileRecord] = []
        self._unreadable: list[tuple[FileRecord, list[PartRecord]]] = []

    def bring_in_line(self, found: Scan) -> Counter[str]:
        """Read what is new or changed, a batch of files per transaction, then remove what is gone.

        If nothing can be searched yet, it ends after a while, and again each time that the chunks
        have doubled, so that they can be indexed; another call reads the remaining files.

        Raises NoDocumentsError if nothing would be left to search. Files that still exist then keep
        what was read of them before.
        """
        self._former = Former(self._context, self._chunking, self._ocr, found)
        changed = sorted(
            filter(self._former.is_changed, found.files), key=lambda file: file.size // _LARGE
        )
        if self._store.files_left():
            self._tally["unread"] = sum(
                one.state in ("quarantined", "skipped") for one in self._former.files.values()
            )
        same = {(file.source, file.path) for file in found.files} - {
            (file.source, file.path) for file in changed
        }
        self._tally["unchanged"] = sum(self._former.files[key].state == "read" for key in same)
        self._pool = self._reading_pool(given_out=bool(changed))
        try:
            self._read_all(changed, len(same) if self._is_first else 0)
        finally:
            self._pool.close()
        if (more := self._tally["unread"] - MAX_NAMED) > 0 and not self.progress.left:
            lists_all = f"'engine documents {self._context.project.argument}' lists all"
            self._context.warn(f"{more:,} more not read: {lists_all}.")
        with self._store.transaction():
            self._tally["removed"] += forget_gone(self._context, self._former.files, found)
            self._note_unopened()
        unread = [*self._unopened, *(record for record, _ in self._unreadable)]
        left_out = [Skipped(record.path, record.reason) for record in unread] + found.skipped
        nothing_left = no_documents("None of the files could be read.", left_out, self._context)
        with self._store.transaction():
            self._drop_unreadable()
            if not self._store.has_chunks():
                raise nothing_left
        return self._tally

    def _reading_pool(self, *, given_out: bool) -> Pool:
        corpus = self._context.settings.corpus
        context = self._context
        processes = corpus.reading_processes or min(8, os.cpu_count() or 1)
        limits = Limits(
            corpus.reading_memory_mb * 2**20, corpus.reading_seconds, ocr_seconds=corpus.ocr_seconds
        )
        if not (given_out and cluster_address()):
            return Pool(processes, limits, passwords(context), self._ocr)
        pool = NodesPool(processes, limits, passwords(context), self._ocr, context.check_stop)
        context.choose(
            "reading",
            f"on {pool.nodes.count} nodes",
            "files' bytes are sent to the cluster (--ray)",
        )
        return pool

    def _read_all(self, changed: list[ScannedFile], known: int) -> None:
        """Read what changed; `known` is the number of files that already count as done."""
        batch: list[Looked] = []
        self.progress = progress = FileProgress(self._context, known, known + len(changed))
        began = kept = time.monotonic()
        if self._is_first:
            chunks = self._store.counts()["chunks"]
        else:
            chunks = 0

        def keep() -> None:
            nonlocal kept
            if batch:
                with self._store.transaction():
                    for looked in batch:
                        progress.turn_to(looked.file.path)
                        self._take(looked)
                progress.add(len(batch))
                batch.clear()
            kept = time.monotonic()

        def go_on() -> None:
            place = progress.done - known + len(batch)
            progress.turn_to(changed[place].path if place < len(changed) else "")
            progress.check()
            if (
                len(batch) >= FILES_PER_TRANSACTION
                or time.monotonic() - kept > SECONDS_PER_TRANSACTION
            ):
                keep()
            doubled = self._is_first and self._tally["new_chunks"] >= max(1, chunks)
            if doubled and time.monotonic() - began >= FIRST_SECONDS:
                raise _Enough

        with suppress(_Enough):
            for looked in self._pool.map(
                self._look, changed, go_on, lambda one: one.outcome.length if one.outcome else 0
            ):
                batch.append(looked)
                go_on()
        keep()

    def _look(self, file: ScannedFile) -> Looked:
        """Hash a file, and read it unless its content is known.

        This runs in a thread of the pool, so it does not touch the store.
        """
        if file.size > MAX_FILE and file.format not in STREAMED | {"beir"}:
            return Looked(
                file,
                outcome=Outcome(kind="too large", reason=f"larger than {MAX_FILE // 2**20} MB"),
            )
        try:
            content_hash = hash_file(file.absolute)
        except OSError as error:
            return Looked(file, closed=system_reason(error))
        looked = Looked(file, content_hash)
        record = self._former.record_of(file)
        if record and self._former.is_known(record, content_hash):
            return looked
        if self._former.is_elsewhere(content_hash) or file.format == "beir":
            return looked
        looked.outcome = self._pool.read(file.absolute, file.format)
        return looked

    def _take(self, looked: Looked) -> None:
        """Bring the database in line with one file that was looked at."""
        record = self._former.record_of(looked.file)
        if record and record.state != "gone":
            former = record
        else:
            former = None
        if closed := looked.closed or (
            looked.outcome.reason if looked.outcome and looked.outcome.closed else ""
        ):
            self._leave_closed(looked.file, former, closed)
        elif former and self._former.is_known(former, looked.content_hash):
            if former.state == "quarantined":
                state = former.state
            else:
                state = "read"
            reason, kind = ("", "") if former.state == "skipped" else (former.reason, former.kind)
            known = record_of(looked.file, looked.content_hash, state, reason, self._chunking, kind)
            self._store.set_modified(self._store.put_file(known), looked.file.mtime_ns / 1e9)
            self._tally["unchanged"] += state == "read"
        elif former is None and self._is_renamed(looked):
            self._tally["renamed"] += 1
        else:
            self._read(looked, former)

    def _is_renamed(self, looked: Looked) -> bool:
        """Tell whether a lost file had this content; if so, move its documents to the new name."""
        if (renamed := self._former.renamed(looked.file, looked.content_hash)) is not None:
            self._store.move_file(*renamed)
        return renamed is not None

    def _read(self, looked: Looked, former: FileRecord | None) -> None:
        file = looked.file
        parts: list[PartRecord] = []
        try:
            with self._store.savepoint():
                new_chunks = self._keep(looked, former, parts)
        except UnreadableFileError as error:
            why = error.why or error.what
            unread = record_of(
                file, looked.content_hash, "quarantined", why, self._chunking, error.kind
            )
            self._unreadable.append((unread, parts))
            # Otherwise the stored content stays until all files are read.
            if former is None or not self._store.documents_of(former.id):
                self._store.put_parts(self._store.put_file(unread), parts)
            self._report_unread(unread, former)
        except OSError as error:
            self._leave_closed(file, former, system_reason(error))
        else:
            self._tally["read"] += 1
            self._tally["new_chunks"] += new_chunks

    def _leave_closed(self, file: ScannedFile, former: FileRecord | None, reason: str) -> None:
        """Keep what is stored of a file that cannot be opened, and try it again next time.

        It is then read again if the ledger says more of it than that it was read.
        """
        record = former or record_of(file, "", "", "", "")
        remarked = record.state == "quarantined" or (
            record.state == "read" and (record.reason or record.kind)
        )
        content_hash = "" if remarked else record.content_hash
        unread = replace(
            record, state="skipped", reason=reason, kind="no access", content_hash=content_hash
        )
        self._unopened.append(unread)
        self._report_unread(unread, former)

    def _report_unread(self, record: FileRecord, former: FileRecord | None) -> None:
        if former is None or (former.state, former.reason) != (record.state, record.reason):
            self._tally["unread"] += 1
            if self._tally["unread"] <= MAX_NAMED:
                self._context.warn(f"{record.path} was not read: {record.reason}")

    def _keep(self, looked: Looked, record: FileRecord | None, parts: list[PartRecord]) -> int:
        """Bring the documents of one file in line, and return the number of new chunks.

        What gave no document is added to `parts`.
        """
        file = looked.file
        content_hash = looked.content_hash
        self._store.mark_incomplete(CorpusInfo)
        file_id = self._store.put_file(record_of(file, content_hash, "read", "", self._chunking))
        former = self._store.documents_of(file_id)
        same_chunking = record is not None and record.chunking == self._chunking
        new_chunks = 0
        notes: list[str] = []
        by_ocr = False
        documents = self._documents(looked, parts)
        while block := [*itertools.islice(documents, 512)]:
            notes += (found.note for found in block if found.note)
            by_ocr = by_ocr or any(found.note and found.format in _BY_OCR for found in block)
            new_chunks += self._keep_block(
                file, file_id, content_hash, block, former, same_chunking
            )
        for document_id, _ in former.values():
            self._store.drop_document(document_id)
        if not self._store.has_chunks(file_id):
            kind, reason = (
                (parts[0].kind, f"{parts[0].path}: {parts[0].reason}")
                if parts
                else ("empty", "empty")
            )
            raise UnreadableFileError(file.absolute, reason, cast(Kind, kind))
        self._store.put_parts(file_id, parts)
        if notes:
            if len(notes) == 1:
                note = notes[0]
            else:
                note = f"{notes[0]}; and {len(notes) - 1} more inside it"
            self._store.put_file(
                record_of(
                    file, content_hash, "read", note, self._chunking, BY_OCR if by_ocr else ""
                )
            )
        return new_chunks

    def _documents(self, looked: Looked, parts: list[PartRecord]) -> Iterator[ReadDocument]:
        """Yield the documents of a file, read in a child process already or read now."""
        outcome = looked.outcome
        if outcome is None:
            file = looked.file
            # A file without an outcome may be a second one with the content of a lost one.
            if file.format != "beir":
                outcome = self._pool.read(file.absolute, file.format)
        if outcome is None:
            yield from read_data_set(looked.file)
            return
        if outcome.closed:
            raise OSError(0, outcome.reason)
        parts += [
            PartRecord(part.member, part.state, part.kind, part.reason) for part in outcome.left_out
        ]
        if outcome.kind:
            raise UnreadableFileError(looked.file.absolute, outcome.reason, outcome.kind)
        yield from outcome.documents

    def _keep_block(
        self,
        file: ScannedFile,
        file_id: int,
        content_hash: str,
        block: list[ReadDocument],
        former: dict[str, tuple[int, str]],
        same_chunking: bool,
    ) -> int:
        todo: list[tuple[Document, ReadDocument]] = []
        for read in block:
            document = document_of(file, content_hash, read)
            row, old_hash = former.pop(document.path, (0, ""))
            if row and same_chunking and old_hash == document.content_hash:
                continue
            todo.append((replace(document, id=row), read))
        new_chunks = 0
        for (document, read), chunks in zip(
            todo, self._chunker.chunk_many([read for _, read in todo]), strict=True
        ):
            row = self._store.put_document(file_id, document)
            new_chunks += self._store.replace_chunks(row, chunks)
            self._store.replace_document_queries(
                row, queries_in(read, document.path, self._store.chunks_of(row))
            )
        return new_chunks

    def _note_unopened(self) -> None:
        """Store the records of files that could not be opened, within a transaction.

        Their content stays, and they are tried again next time.
        """
        for record in self._unopened:
            self._store.put_file(record)

    def _drop_unreadable(self) -> None:
        """Remove what files that hold no text any more said, within a transaction."""
        for record, parts in self._unreadable:
            file_id = self._store.put_file(record)
            self._store.put_parts(file_id, parts)
            for document_id, _ in self._store.documents_of(file_id).values():
                self._store.drop_document(document_id)
        if self._unreadable:
            self._store.mark_incomplete(CorpusInfo)
