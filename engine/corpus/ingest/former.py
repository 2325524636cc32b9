"""What the last ingest left of each file in project.db, and what of it still holds."""

from __future__ import annotations

from pathlib import Path

from engine.corpus.ingest.attempts import ocr_mark, passwords_mark, reading_limits
from engine.corpus.ingest.rows import is_closed, record_of
from engine.corpus.sandbox.tesseract import Tesseract
from engine.corpus.scan.scan import Scan, ScannedFile
from engine.corpus.text.metadata import title_from_name
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo
from engine.project.store.records import FileRecord

BY_OCR = "OCR"  # the kind of a file that was read so, in part at least


class Former:
    """The files as they were read before. `chunking`: how chunks are cut now."""

    def __init__(self, context: StageContext, chunking: str, ocr: Tesseract | None, found: Scan) -> None:
        self._store, self._chunking = context.store, chunking
        self._titled = context.settings.corpus.context == "title"
        self.files = self._store.files()
        kinds = _worth_another_try(context, ocr)
        self._reopening = {record.id for record in self.files.values() if kinds and self._is_of(record, kinds)}
        self._lost = self._not_in_place(found)

    def record_of(self, file: ScannedFile) -> FileRecord | None:
        """What is stored of a file, also of one that was gone."""
        return self.files.get((file.source, file.path))

    def is_changed(self, file: ScannedFile) -> bool:
        """Whether a file must be looked at. Its size and time of change decide, and when the system last noted a change of it: a
        file that has taken the name of another one may be as long and as old.
        """
        record = self.record_of(file)
        return (
            record is None
            or record.state not in ("read", "quarantined")  # what was closed to us may be open now
            or record.chunking != self._chunking
            or record.id in self._reopening
            or (record.size, record.mtime_ns, record.ctime_ns) != (file.size, file.mtime_ns, file.ctime_ns)
        )

    def is_known(self, record: FileRecord, content_hash: str) -> bool:
        """Whether what is stored of a file is of this content, and all that can be made of it."""
        same = bool(content_hash) and (record.content_hash, record.chunking) == (content_hash, self._chunking)
        return same and record.id not in self._reopening

    def is_elsewhere(self, content_hash: str) -> bool:
        """Whether a file with this content is not where it was: it may have been renamed."""
        return content_hash in self._lost

    def renamed(self, file: ScannedFile, content_hash: str) -> tuple[FileRecord, FileRecord, tuple[str, str]] | None:
        """(what was stored of the file under its former name, the same under the new one, the titles that the names make), once
        for each lost file; None where none had this content, or where chunks hold a title that changes.
        """
        lost = self._lost.get(content_hash, [])
        former = next((record for record in lost if record.format == file.format), None)
        titles = (title_from_name(Path(former.path)), title_from_name(Path(file.path))) if former else ("", "")
        if former is None or (self._titled and titles[0] != titles[1]):
            return None
        lost.remove(former)
        del self.files[former.source, former.path]
        return former, record_of(file, content_hash, "read", former.reason, self._chunking, former.kind), titles

    def _not_in_place(self, found: Scan) -> dict[str, list[FileRecord]]:
        """Files that were read and are not where they were, by content."""
        present, closed = {(file.source, file.path) for file in found.files}, set(found.closed)
        lost: dict[str, list[FileRecord]] = {}
        for key, record in self.files.items():
            current = record.state == "read" and record.chunking == self._chunking
            if current and key not in present and not is_closed(record, closed):
                lost.setdefault(record.content_hash, []).append(record)
        return lost

    def _is_of(self, record: FileRecord, kinds: set[str]) -> bool:
        """Whether a file, or something in it, came to one of these ends."""
        return record.kind in kinds or any(part.kind in kinds for part in self._store.parts(record.id))


def _worth_another_try(context: StageContext, ocr: Tesseract | None) -> set[str]:
    """The kinds of files that passwords, OCR or limits not tried before may open."""
    former = context.store.artifact(CorpusInfo)
    info = former.info if former else CorpusInfo()
    kinds = {"encrypted"} if info.passwords != passwords_mark(context) else set()
    gone = ocr is None and context.settings.corpus.ocr
    if not gone and info.ocr != ocr_mark(context, ocr):
        kinds |= {"needs OCR", BY_OCR}
    return kinds | {kind for kind, limit in reading_limits(context).items() if limit > info.limits.get(kind, limit)}
