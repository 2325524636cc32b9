"""Stage `ingest`: files → documents → chunks in project.db.

It reads only what changed since the last run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import UsageError
from engine.corpus.ingest.ingest import Ingest, ReadingPace
from engine.corpus.ingest.previous import (
    choose_tesseract,
    forget_gone,
    limits_of,
    no_documents,
    ocr_mark,
    passwords_mark,
)
from engine.corpus.scan.scan import Scan, Skipped, is_bare, scan
from engine.datasets.imports import import_neighbouring_judgments
from engine.encoders.kinds.chosen import base_source, warnings_of
from engine.encoders.tokenizer import chunk_tokenizer, tokenizer_fingerprint
from engine.project.stage import (
    ProjectSnapshot,
    Stage,
    StageContext,
    fingerprint,
    stage_fingerprint,
)
from engine.project.store.artifact_info import CorpusInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.files import LeftOutRecord

if TYPE_CHECKING:
    from engine.settings.schema import Settings

VERSION = 24
# Stored in place of the stage's fingerprint while files are left to read.
_PARTIAL = "partial"


class IngestStage(Stage):
    """Files → documents → chunks in project.db; only what changed since the last run is read."""

    version = VERSION
    artifact = CorpusInfo
    # Only a look at the folder shows whether anything changed.
    always = True

    def __init__(self, pace: ReadingPace | None = None) -> None:
        self._pace = pace or ReadingPace()

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return all inputs except the files, which the stage compares one by one."""
        return {
            "corpus": _recipe(snapshot.settings),
            "tokenizer": tokenizer_fingerprint(chunk_tokenizer(snapshot.settings)),
        }

    def stale_note(self, snapshot: ProjectSnapshot) -> str:
        """Say how many files a stopped run has left."""
        left = snapshot.store.files_left()
        if left == 1:
            return "1 file is not read yet"
        return f"{left:,} files are not read yet" if left else ""

    def run(self, context: StageContext) -> dict[str, Any]:
        """Scan the sources and bring documents and chunks in line with them.

        Raises UsageError without sources, InputError for a missing source, and NoDocumentsError if
        nothing is readable. The project then keeps what it had of files that still exist, or of all
        files if the folders are bare, as those of a disk that is not mounted.
        """
        sources = context.project.sources(context.settings)
        if not sources:
            raise UsageError(
                "The project names no documents.",
                "corpus.paths in project.toml is empty.",
                "Add a folder to it.",
                code="documents-not-chosen",
                stage="ingest",
            )
        corpus = context.settings.corpus
        records = context.store.files().values()
        known_sources = {record.source for record in records if record.state != "gone"}
        result = scan(
            sources,
            corpus.include,
            corpus.exclude,
            follow_links=corpus.follow_links,
            pictures=corpus.ocr,
            read_before={str(context.project.path / source) for source in known_sources},
        )
        _make_sources_movable(result, context.project.path)
        _refuse_empty(result, sources, context)
        for warning in warnings_of(context.settings, base_source(context.settings.encoder)):
            context.warn(warning)
        tokenizer = chunk_tokenizer(context.settings)
        tokenizer_mark = tokenizer_fingerprint(tokenizer)
        chunk_settings = corpus.model_dump(include={"chunk_tokens", "overlap_sentences", "context"})
        chunking = fingerprint(
            tokenizer=tokenizer_mark,
            version=VERSION,
            **chunk_settings,
        )
        tesseract = choose_tesseract(context)
        _report_left_out(context, result)
        ingest = Ingest(
            context,
            tokenizer,
            chunking,
            tesseract,
            self._pace,
        )
        tally = ingest.read_changes(result)
        left = ingest.progress.left
        if not left:
            data_sets = [file.absolute for file in result.files if file.format == "beir"]
            import_neighbouring_judgments(context, data_sets)
        info = CorpusInfo(
            context.store.corpus_fingerprint(),
            passwords=passwords_mark(context),
            ocr=ocr_mark(context, tesseract),
            limits=limits_of(context),
            tokenizer=tokenizer_mark,
            files_left=left,
        )
        complete_fingerprint = stage_fingerprint(
            "ingest",
            VERSION,
            self.inputs(context),
        )
        context.store.put_artifact(Artifact(info, _PARTIAL if left else complete_fingerprint))
        counts = context.store.counts()
        return {
            "files_read": tally["read"],
            "files_unchanged": tally["unchanged"],
            "files_removed": tally["removed"],
            "files_left": left,
            # Folders that are away are stored with the skipped files.
            "files_skipped": counts["skipped"] - len(result.away),
            "files_quarantined": counts["quarantined"],
            "new_chunks": tally["new_chunks"],
            "documents": counts["documents"],
            "chunks": counts["chunks"],
            "judged_queries": counts["judged_queries"],
            "files_renamed": tally["renamed"],
            "left_out_inside_files": len(context.store.unread_parts()),
        }


STAGE = IngestStage()


def _recipe(settings: Settings) -> dict[str, Any]:
    """Return the settings of [corpus] in project.toml that decide a file's chunks.

    The tokenizer is not among them.
    """
    irrelevant = {
        "retrain_threshold",
        "follow_links",
        "reading_processes",
        "reading_seconds",
        "reading_memory_mb",
        "passwords_file",
        "ocr",
        "ocr_languages",
        "ocr_seconds",
        "tokenizer",
    }
    return settings.corpus.model_dump(exclude=irrelevant)


def _refuse_empty(
    result: Scan,
    sources: list[Path],
    context: StageContext,
) -> None:
    """Raise NoDocumentsError if there is nothing to read.

    Deleted files are removed from search first, except from bare folders: a disk that is not
    mounted looks the same.
    """
    if result.files:
        return
    project = context.project.path
    present = {_make_movable(str(source), project) for source in sources if not is_bare(source)}
    with context.store.transaction():
        forget_gone(
            context,
            context.store.files(),
            result,
            present,
        )
        context.store.put_left_out(map(_build_record, (*result.skipped, *result.away)))
    places = ", ".join(str(source) for source in sources)
    raise no_documents(
        f"No readable documents in {places}.",
        result.skipped,
        context,
    )


def _make_sources_movable(result: Scan, project: Path) -> None:
    """Name the sources of a scan that lie in the project folder relative to it."""
    sources = {file.source for file in result.files}
    sources.update(item.source for item in (*result.skipped, *result.away))
    names = {source: _make_movable(source, project) for source in sources}
    # Mostly all sources lie outside of the project folder, and the many records need not be copied.
    if any(name != source for source, name in names.items()):
        result.files = [replace(file, source=names[file.source]) for file in result.files]
        result.skipped = [replace(item, source=names[item.source]) for item in result.skipped]
        result.away = [replace(item, source=names[item.source]) for item in result.away]
    result.inaccessible = [(names[source], path) for source, path in result.inaccessible]


def _make_movable(source: str, project: Path) -> str:
    """Return a source in the project folder relative to it, so that the project can be moved."""
    if Path(source).is_relative_to(project):
        return Path(source).relative_to(project).as_posix()
    return source


def _report_left_out(context: StageContext, result: Scan) -> None:
    """Store what the scan left out, and warn of it by reason if that has changed.

    Always warn of folders that are away.
    """
    for item in result.away:
        problem = item.reason.replace("the folder", str(context.project.path / item.source))
        to_do = "If its documents are gone for good, take it out of corpus.paths"
        context.warn(f"{problem}: what was read from it before stays searchable. {to_do}.")
    skipped = result.skipped
    with context.store.transaction():
        changed = context.store.put_left_out(map(_build_record, (*skipped, *result.away)))
    if changed and skipped:
        counts = Counter(item.reason for item in skipped).most_common()
        reasons = ", ".join(f"{reason} ({count})" for reason, count in counts)
        context.warn(f"{len(skipped)} left out: {reasons}.")


def _build_record(item: Skipped) -> LeftOutRecord:
    """Return the record of what is left out; a whole folder is named by its own path."""
    path = item.source if item.path == "." else item.path
    return LeftOutRecord(
        item.source,
        path,
        item.kind,
        item.reason,
    )
