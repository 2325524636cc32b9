"""Stage `ingest`: files → documents → chunks in project.db. Reads only what changed since the last run."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine.corpus.attempts import ocr_mark, passwords_file, passwords_mark, reading_limits, wanted_tesseract
from engine.corpus.beir import read_beir_judgments
from engine.corpus.formats import PICTURES, STREAMED
from engine.corpus.imports import read_judgments, restore_marked
from engine.corpus.passwords import read_passwords
from engine.corpus.readers import (
    LARGEST_FILE,
    Kind,
    ReadDocument,
    UnreadableFileError,
    is_registered,
    reader_for,
    title_from_name,
)
from engine.corpus.rows import document_of, is_closed, record_of, told_by_system
from engine.corpus.sandbox import Limits, Outcome, Pool, Tesseract
from engine.corpus.scan import Scan, ScannedFile, Skipped, scan
from engine.errors import DatasetError, NoDocumentsError, UsageError
from engine.records import Document
from engine.stage import StageContext, View, fingerprint
from engine.store import Artifact, FileRecord, PartRecord

if TYPE_CHECKING:
    from engine.encoders import ModelFolder

VERSION = 3
ARTIFACT = "corpus"
ALWAYS = True  # only a look at the folder tells whether anything changed
FILES_PER_TRANSACTION = 50
SECONDS_PER_TRANSACTION = 1.0
BY_OCR = "OCR"  # the kind of a file that was read so, in part at least
_BY_OCR = frozenset({"pdf", *PICTURES.values()})  # what a note on tells of OCR; on others it tells of the encoding
SKIPPED_KEPT = 1000  # names of files left out that 'engine status' can show


def inputs(view: View) -> dict[str, Any]:
    """Everything but the files themselves, which the stage compares one by one."""
    aside = {"drift", "follow_links", "reading_processes", "reading_seconds", "reading_memory_mb", "passwords_file", "ocr",
             "ocr_languages", "ocr_seconds"}  # fmt: skip
    return {"corpus": view.settings.corpus.model_dump(exclude=aside), "model": view.settings.encoder.model}


@dataclass
class Tally:
    """What one ingest did."""

    read: int = 0
    unchanged: int = 0
    removed: int = 0
    renamed: int = 0
    new_chunks: int = 0


def run(context: StageContext) -> dict[str, Any]:
    """Scan the sources and bring documents and chunks in line with them.

    Raises UsageError without sources, InputError for a source that is missing, NoDocumentsError when nothing is
    readable: then the project keeps what it had of the files that are still there; of all, where the folders are bare.
    """
    from engine.encoders import resolve_model

    sources = context.project.sources(context.settings)
    if not sources:
        raise UsageError(
            "The project names no documents.", "corpus.paths in project.toml is empty.", "Add a folder to it."
        )
    corpus = context.settings.corpus
    found = scan(sources, corpus.include, corpus.exclude, follow_links=corpus.follow_links, pictures=corpus.ocr)
    _refuse_empty(found, sources, context)
    found.files = [replace(file, source=_movable(file.source, context.project.path)) for file in found.files]
    found.closed = [(_movable(source, context.project.path), path) for source, path in found.closed]
    model = resolve_model(context.settings.encoder.model)
    _tell_cut(context, model.max_tokens)
    _tell_prompts(context, model)
    chunking = fingerprint(
        version=VERSION,
        model=model.fingerprint,
        **context.settings.corpus.model_dump(include={"chunk_tokens", "overlap_sentences", "context"}),
    )
    tesseract = wanted_tesseract(context)
    tally = Ingest(context, model.tokenizer_file, chunking, tesseract).bring_in_line(found)
    judged = _import_judgments(context, found.files)
    info = {
        "chunks": context.store.corpus_fingerprint(),
        "passwords": passwords_mark(context),
        "ocr": ocr_mark(context, tesseract),
        "limits": reading_limits(context),
        "skipped": _told_skipped(context, found.skipped),
    }
    artifact = Artifact(ARTIFACT, context.fingerprint, "", 0.0, info)
    context.store.put_artifact(artifact)
    counts = context.store.counts()
    return {
        "files_read": tally.read, "files_unchanged": tally.unchanged, "files_removed": tally.removed,
        "files_skipped": counts["skipped"] + len(found.skipped), "new_chunks": tally.new_chunks, "documents": counts["documents"],
        "chunks": counts["chunks"], "judged_queries": judged, "files_renamed": tally.renamed,
    }  # fmt: skip


def _tell_prompts(context: StageContext, model: ModelFolder) -> None:
    """Warn where the model is known to want prompts, and nothing names them: it would be measured and served below its worth."""
    from engine.encoders.fingerprint import missing_prompts

    chosen = context.settings.encoder
    missing = missing_prompts(model.with_prompts(chosen.query_prompt, chosen.document_prompt))
    if missing:
        context.warn(
            f"Models called {model.name} were trained with the prompts {missing.query!r} before queries and "
            f"{missing.document!r} before documents, which its folder does not name. Set encoder.query_prompt and "
            "encoder.document_prompt to them, or to empty texts if this one wants none."
        )


def _tell_cut(context: StageContext, of_model: int) -> None:
    """Warn of chunks that are longer than what the encoder reads. `of_model`: the longest text that the model takes."""
    wanted, asked = context.settings.corpus.chunk_tokens, context.settings.encoder.max_tokens
    read = min(asked, of_model)
    if wanted <= read:
        return
    todo = "raise encoder.max_tokens" if asked < min(wanted, of_model) else "lower corpus.chunk_tokens"
    context.warn(
        f"Chunks may have {wanted} tokens (corpus.chunk_tokens), but the encoder reads the first {read} of a text "
        f"({'encoder.max_tokens' if asked <= of_model else 'the most that its model takes'}): semantic search does not see the "
        f"rest, BM25 does. To mend that, {todo}."
    )


def _refuse_empty(found: Scan, sources: list[Path], context: StageContext) -> None:
    """Raises NoDocumentsError where there is nothing to read. What was deleted leaves search all the same, but not where the
    folders are bare: so does one look whose disk is not mounted.
    """
    if found.files:
        return
    there = {_movable(str(source), context.project.path) for source in sources if not _is_bare(source)}
    with context.store.transaction():
        _forget_deleted(context, context.store.files(), found, there)
    places = ", ".join(str(source) for source in sources)
    why = _reasons(found.skipped) if found.skipped else "The folder is empty, or no file matches corpus.include."
    raise _no_documents(f"No readable documents in {places}.", why, context)


def _is_bare(source: Path) -> bool:
    """Whether a folder holds nothing at all, or does not let us see what."""
    try:
        with os.scandir(source) as entries:
            return next(entries, None) is None
    except OSError:
        return True


def _forget_deleted(
    context: StageContext, known: dict[tuple[str, str], FileRecord], found: Scan, sources: Container[str] | None = None
) -> int:
    """Within a transaction: files of `sources` (None: of all, also of former ones) that are gone leave search; returns how many
    of these were read. What the system does not let us look at is not gone."""
    present = {(file.source, file.path) for file in found.files}
    gone = [
        record
        for key, record in known.items()
        if key not in present
        and record.state != "gone"
        and not is_closed(record, found.closed)
        and (sources is None or record.source in sources)
    ]
    for record in gone:
        context.store.forget_file(record.id)
    if gone:
        context.store.mark_incomplete(ARTIFACT)
    return sum(record.state == "read" for record in gone)


def _no_documents(what: str, why: str, context: StageContext) -> NoDocumentsError:
    kept = " What was searchable before stays so." if context.store.counts()["chunks"] else ""
    return NoDocumentsError(
        what,
        why,
        "Put documents that hold text there (text, office files, PDF, mails, or a BEIR folder), or name another folder in "
        f"project.toml.{kept}",
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


@dataclass
class Looked:
    """What a look at a changed file found: its hash, and what its reading came to where it had to be read."""

    file: ScannedFile
    content_hash: str = ""
    outcome: Outcome | None = None
    closed: str = ""


class _NothingLeftError(Exception):
    """No document would be left to search."""


class Ingest:
    """Compares scanned files with what the database knows, and reads the difference."""

    def __init__(self, context: StageContext, tokenizer: Path, chunking: str, ocr: Tesseract | None) -> None:
        from engine.corpus.chunking import Chunker

        corpus = context.settings.corpus
        self._context, self._store, self._chunking = context, context.store, chunking
        self._chunker = Chunker(
            tokenizer,
            chunk_tokens=corpus.chunk_tokens,
            overlap_sentences=corpus.overlap_sentences,
            context=corpus.context,
        )
        self._titled = corpus.context == "title"
        self._pool = Pool(
            corpus.reading_processes or min(8, os.cpu_count() or 1),
            Limits(corpus.reading_memory_mb * 2**20, corpus.reading_seconds, ocr_seconds=corpus.ocr_seconds),
            read_passwords(passwords_file(context)) if corpus.passwords_file else (),
            ocr,
        )
        former = context.store.artifact(ARTIFACT)
        self._new_passwords = (former.info.get("passwords") if former else None) != passwords_mark(context)
        limits = former.info.get("limits", {}) if former else {}
        self._raised = {kind for kind, limit in reading_limits(context).items() if limit > limits.get(kind, limit)}
        gone = ocr is None and corpus.ocr
        self._other_ocr = not gone and (former.info.get("ocr", "") if former else "") != ocr_mark(context, ocr)
        self._tally = Tally()
        self._told = 0.0
        self._known: dict[tuple[str, str], FileRecord] = {}
        self._lost: dict[str, list[FileRecord]] = {}
        self._reopening: set[int] = set()  # files that passwords, OCR or limits not tried before may open
        self._unopened: list[FileRecord] = []
        self._unreadable: list[tuple[FileRecord, list[PartRecord]]] = []

    def bring_in_line(self, found: Scan) -> Tally:
        """Read what is new or changed, a batch of files per transaction; then forget what is gone.

        Raises NoDocumentsError when nothing would be left to search; files that are still there then keep what was read of
        them before.
        """
        self._known = self._store.files()
        self._note_lost(found)
        kinds = {"encrypted"} if self._new_passwords else set()
        kinds |= {"needs OCR", BY_OCR} if self._other_ocr else set()
        kinds |= self._raised
        self._reopening = {record.id for record in self._known.values() if kinds and self._is_of(record, kinds)}
        changed = [file for file in found.files if self._is_changed(file, self._record_of(file))]
        same = {(file.source, file.path) for file in found.files} - {(file.source, file.path) for file in changed}
        self._tally.unchanged = sum(self._known[key].state == "read" for key in same)
        try:
            self._read_all(changed)
        finally:
            self._pool.close()
        with self._store.transaction():
            self._tally.removed += _forget_deleted(self._context, self._known, found)
            self._note_unread()
        try:
            with self._store.transaction():
                self._drop_unreadable()
                if not self._store.counts()["chunks"]:
                    raise _NothingLeftError
        except _NothingLeftError:
            unread = [record for record, _ in self._unreadable]
            skipped = [Skipped(record.path, record.reason) for record in (*self._unopened, *unread)]
            why = _reasons(skipped + found.skipped)
            raise _no_documents("None of the files could be read.", why, self._context) from None
        return self._tally

    def _record_of(self, file: ScannedFile) -> FileRecord | None:
        return self._known.get((file.source, file.path))

    def _note_lost(self, found: Scan) -> None:
        """Files that are not where they were, by content: one that turns up elsewhere was renamed."""
        present = {(file.source, file.path) for file in found.files}
        for key, record in self._known.items():
            current = record.state == "read" and record.chunking == self._chunking
            if current and key not in present and not is_closed(record, found.closed):
                self._lost.setdefault(record.content_hash, []).append(record)

    def _is_changed(self, file: ScannedFile, record: FileRecord | None) -> bool:
        return (
            record is None
            or record.state not in ("read", "quarantined")  # what was closed to us may be open now
            or record.chunking != self._chunking
            or record.id in self._reopening
            or (record.size, record.mtime_ns) != (file.size, file.mtime_ns)
        )

    def _is_of(self, record: FileRecord, kinds: set[str]) -> bool:
        """Whether a file, or something in it, came to one of these ends."""
        return record.kind in kinds or any(part.kind in kinds for part in self._store.parts(record.id))

    def _read_all(self, changed: list[ScannedFile]) -> None:
        done = 0
        looks = self._pool.map(self._look, changed, self._context.check_stop)
        while batch := self._some(looks):
            with self._store.transaction():
                for looked in batch:
                    self._take(looked)
            done += len(batch)
            self._context.progress(done, len(changed), "files")

    def _some(self, looks: Iterator[Looked]) -> list[Looked]:
        """The next files that were looked at: a batch, or what came within a second."""
        batch: list[Looked] = []
        started = time.monotonic()
        for looked in looks:
            self._context.check_stop()
            batch.append(looked)
            if len(batch) >= FILES_PER_TRANSACTION or time.monotonic() - started > SECONDS_PER_TRANSACTION:
                break
        return batch

    def _look(self, file: ScannedFile) -> Looked:
        """Hash a file, and read it unless its content is known. Done in a thread of the pool: it leaves the store alone."""
        if file.size > LARGEST_FILE and file.format not in STREAMED | {"beir"}:
            reason = f"larger than {LARGEST_FILE // 2**20} MB"
            return Looked(file, outcome=Outcome(kind="too large", reason=reason))
        try:
            content_hash = _hash_file(file.absolute)
        except OSError as error:
            return Looked(file, closed=told_by_system(error))
        looked = Looked(file, content_hash)
        record = self._record_of(file)
        if record and self._is_known(record, content_hash):
            return looked
        if content_hash in self._lost or file.format == "beir" or is_registered(file.format):
            return looked
        looked.outcome = self._pool.read(file.absolute, file.format)
        return looked

    def _take(self, looked: Looked) -> None:
        """Bring the database in line with one file that was looked at."""
        record = self._record_of(looked.file)
        former = record if record and record.state != "gone" else None
        if looked.outcome and looked.outcome.closed:
            looked.closed = looked.outcome.reason
        if looked.closed:
            self._leave_closed(looked.file, former, looked.closed)
        elif former and self._is_known(former, looked.content_hash):
            state = former.state if former.state == "quarantined" else "read"
            reason, kind = ("", "") if former.state == "skipped" else (former.reason, former.kind)
            self._store.put_file(record_of(looked.file, looked.content_hash, state, reason, self._chunking, kind))
            self._tally.unchanged += state == "read"
        elif record is None and self._is_renamed(looked):
            self._tally.renamed += 1
        else:
            self._read(looked, former)

    def _is_known(self, former: FileRecord, content_hash: str) -> bool:
        same = bool(content_hash) and (former.content_hash, former.chunking) == (content_hash, self._chunking)
        return same and former.id not in self._reopening

    def _is_renamed(self, looked: Looked) -> bool:
        """Whether a file that is gone had this content: then its documents go on under the new name."""
        file, lost = looked.file, self._lost.get(looked.content_hash, [])
        former = next((record for record in lost if record.format == file.format), None)
        titles = (title_from_name(Path(former.path)), title_from_name(Path(file.path))) if former else ("", "")
        if former is None or (self._titled and titles[0] != titles[1]):
            return False
        lost.remove(former)
        record = record_of(file, looked.content_hash, "read", former.reason, self._chunking, former.kind)
        self._store.move_file(former, record, titles)
        del self._known[former.source, former.path]
        return True

    def _read(self, looked: Looked, former: FileRecord | None) -> None:
        file = looked.file
        parts: list[PartRecord] = []
        try:
            with self._store.savepoint():
                new_chunks = self._keep(looked, former, parts)
        except UnreadableFileError as error:
            unread = record_of(
                file, looked.content_hash, "quarantined", error.why or error.what, self._chunking, error.kind
            )
            self._unreadable.append((unread, parts))
            self._tell_unread(unread, former)
        except OSError as error:
            self._leave_closed(file, former, told_by_system(error))
        else:
            self._tally.read += 1
            self._tally.new_chunks += new_chunks

    def _leave_closed(self, file: ScannedFile, former: FileRecord | None, reason: str) -> None:
        """What the system does not let us open stays as it was, and is tried again next time."""
        unread = replace(former or record_of(file, "", "", "", ""), state="skipped", reason=reason, kind="")
        self._unopened.append(unread)
        self._tell_unread(unread, former)

    def _tell_unread(self, record: FileRecord, former: FileRecord | None) -> None:
        if former is None or (former.state, former.reason) != (record.state, record.reason):
            self._context.warn(f"{record.path} was {record.state}: {record.reason}")

    def _keep(self, looked: Looked, record: FileRecord | None, parts: list[PartRecord]) -> int:
        """Bring the documents of one file in line; returns how many chunks are new. What gave no document goes to `parts`."""
        file, content_hash = looked.file, looked.content_hash
        self._store.mark_incomplete(ARTIFACT)
        file_id = self._store.put_file(record_of(file, content_hash, "read", "", self._chunking))
        former = self._store.documents_of(file_id)
        same_chunking = record is not None and record.chunking == self._chunking
        new_chunks = 0
        notes: list[str] = []
        by_ocr = False
        for block in _blocks(self._documents(looked, parts), 512):
            notes += (found.note for found in block if found.note)
            by_ocr = by_ocr or any(found.note and found.format in _BY_OCR for found in block)
            new_chunks += self._keep_block(file, file_id, content_hash, block, former, same_chunking)
        for document_id, _ in former.values():
            self._store.drop_document(document_id)
        if not self._store.has_chunks(file_id):
            kind, reason = (parts[0].kind, f"{parts[0].path}: {parts[0].reason}") if parts else ("empty", "empty")
            raise UnreadableFileError(file.absolute, reason, cast(Kind, kind))
        self._store.put_parts(file_id, parts)
        if notes:
            told = notes[0] if len(notes) == 1 else f"{notes[0]}; and {len(notes) - 1} more inside it"
            self._store.put_file(record_of(file, content_hash, "read", told, self._chunking, BY_OCR if by_ocr else ""))
        return new_chunks

    def _documents(self, looked: Looked, parts: list[PartRecord]) -> Iterator[ReadDocument]:
        """The documents of a file: read in a child process already, or read here and now."""
        outcome = looked.outcome
        if outcome is None:
            file = looked.file
            if file.format != "beir" and not is_registered(file.format):  # a second file with the content of a lost one
                outcome = self._pool.read(file.absolute, file.format)
        if outcome is None:
            yield from _read_here(looked.file)
            return
        if outcome.closed:
            raise OSError(0, outcome.reason)
        parts += [PartRecord(part.member, part.state, part.kind, part.reason) for part in outcome.left_out]
        if outcome.kind:
            raise UnreadableFileError(looked.file.absolute, outcome.reason, outcome.kind)
        yield from outcome.documents

    def _keep_block(
        self, file: ScannedFile, file_id: int, content_hash: str, block: list[ReadDocument],
        former: dict[str, tuple[int, str]], same_chunking: bool,
    ) -> int:  # fmt: skip
        todo: list[tuple[Document, ReadDocument]] = []
        for read in block:
            document = document_of(file, content_hash, read)
            row, old_hash = former.pop(document.path, (0, ""))
            if row and same_chunking and old_hash == document.content_hash:
                continue
            todo.append((replace(document, id=row), read))
        new_chunks = 0
        for (document, _), chunks in zip(todo, self._chunker.chunk_many([read for _, read in todo]), strict=True):
            new_chunks += self._store.replace_chunks(self._store.put_document(file_id, document), chunks)
        return new_chunks

    def _note_unread(self) -> None:
        """Within a transaction: what the system does not let us open stays as it was, and is tried again next time; of files
        that never gave a document, the ledger says why."""
        for record in self._unopened:
            self._store.put_file(record)
        for record, parts in self._unreadable:
            former = self._known.get((record.source, record.path))
            if former is None or not self._store.documents_of(former.id):
                self._store.put_parts(self._store.put_file(record), parts)

    def _drop_unreadable(self) -> None:
        """Within a transaction: what a file that holds no text any more said before leaves search."""
        for record, parts in self._unreadable:
            file_id = self._store.put_file(record)
            self._store.put_parts(file_id, parts)
            for document_id, _ in self._store.documents_of(file_id).values():
                self._store.drop_document(document_id)
        if self._unreadable:
            self._store.mark_incomplete(ARTIFACT)


def _read_here(file: ScannedFile) -> Iterator[ReadDocument]:
    """The documents of a file whose reader works in this process: a BEIR data set's, or one that was registered."""
    try:
        for found in reader_for(file.format).read(file.absolute):
            if isinstance(found, ReadDocument):
                yield found
    except DatasetError as error:
        place = error.what.partition(" cannot be ")[0].removeprefix(str(file.absolute)).lstrip(", ")
        why = error.why.removeprefix("Because ").rstrip(".")
        raise UnreadableFileError(file.absolute, ": ".join(filter(None, ("damaged", place, why)))) from error


def _hash_file(path: Path) -> str:
    """The hash of a file's content. Raises OSError, also where a pipe or a device has taken the file's place."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file any more")
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
            try:
                judged = read_beir_judgments(folder)
            except DatasetError as error:
                context.warn(f"The judgments beside {file.path} are left out. {error.what} {error.why}")
                continue
            context.store.put_judged(judged)
            context.choose("judgments", len(judged), f"queries.jsonl and qrels/test.tsv lie beside {file.path}")
    return context.store.counts()["judged_queries"]
