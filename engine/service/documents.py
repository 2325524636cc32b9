"""The files of a project: what a scan finds, what ingest left out, and requests to read again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields

from engine.core.errors import unknown_name
from engine.core.messages import documents as messages
from engine.core.messages.wire import to_json
from engine.project.folder import ProjectFolder
from engine.project.store.files import UNREAD
from engine.project.store.store import Store

SKIPPED_SHOWN = 500  # files
STATES = ("read", *UNREAD)


def scan(project: ProjectFolder, request: messages.Scan) -> messages.Scanned:
    """Count files and bytes by format, and list what would be left out.

    Settings that the request does not name come from project.toml.
    """
    from engine.corpus.scan.scan import scan as scan_files
    from engine.settings.load import validate

    started = time.monotonic()
    requested = to_json(request)
    settings = validate({"corpus": requested})
    if len(requested) < len(fields(messages.Scan)):  # the others come from project.toml
        requested_values = settings.corpus.model_dump(include=set(requested))
        corpus = project.settings().corpus.model_copy(update=requested_values)
        settings = settings.model_copy(update={"corpus": corpus})
    corpus = settings.corpus
    listing = scan_files(
        project.sources(settings),
        corpus.include,
        corpus.exclude,
        follow_links=corpus.follow_links,
        pictures=corpus.ocr,
    )
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in listing.files:
        files[file.format] += 1
        sizes[file.format] += file.size
    counts = [messages.FormatCount(name, files[name], sizes[name]) for name in files]
    counts.sort(key=lambda count: (-count.bytes, -count.files, count.format))
    left_out = []
    for skipped_file in listing.skipped[:SKIPPED_SHOWN]:
        source = str(skipped_file.source)
        left_out.append(messages.LeftOut(source, skipped_file.path, skipped_file.reason))
    return messages.Scanned(
        tuple(counts),
        files.total(),
        sizes.total(),
        tuple(left_out),
        len(listing.skipped),
        round(time.monotonic() - started, 3),
    )


def skipped(project: ProjectFolder, _request: messages.ReadSkipped) -> messages.UnreadFiles:
    """Count all files that were not read, and list the first of them by path.

    Those that can be tried again come first.
    """
    with closing(project.store()) as store:
        files = list_unsearched(store)
        for source, path, reason in store.unread_parts():
            files.append(messages.Unread(source, path, reason, retryable=True))
    files.sort(key=lambda file: (not file.retryable, file.path, file.source))
    retryable = sum(file.retryable for file in files)
    return messages.UnreadFiles(
        tuple(files[:SKIPPED_SHOWN]),
        len(files),
        retryable,
    )


def list_unsearched(store: Store, state: str | None = None) -> list[messages.Unread]:
    """Return the files that are not searched, by path; `state`: only those in this state."""
    files = [
        messages.Unread(source, path, reason, retryable=True)
        for source, path, reason in store.unread_files(state)
    ]
    if state != "quarantined":  # files that ingest did not try to read count as skipped
        for file in store.left_out():
            files.append(messages.Unread(file.source, file.path, file.reason, retryable=False))
    return sorted(files, key=lambda file: (file.path, file.source))


def ledger(store: Store, state: str | None = None) -> list[messages.FileOutcome]:
    """Return the outcome of every file, by path. Raises UsageError for an unknown state."""
    if state is not None and state not in STATES:
        raise unknown_name(
            "state",
            state,
            STATES,
            code="state-unknown",
        )
    return store.ledger(state)


def retry_matching(project: ProjectFolder, globs: Sequence[str] = ()) -> int:
    """Let the next ingest read again the files that were not read, or only in part.

    Returns the number of these files. `globs`: only files that match one of them; empty for all.
    Raises UsageError for a malformed glob.
    """
    from engine.search.filters import path_filter

    matches = path_filter(globs)
    with project.locked(), closing(project.store()) as store, store.transaction():
        files = [(source, path) for source, path in store.unread_or_in_part() if matches(path)]
        return sum(store.forget_reading(source, path) for source, path in files)


def retry(project: ProjectFolder, request: messages.Retry) -> messages.Forgotten:
    """Let the next ingest read files again although they did not change.

    These are the files that the request names, or else all that were not read, or only in part.
    """
    with project.locked(), closing(project.store()) as store, store.transaction():
        files = store.unread_or_in_part()
        if request.files is not None:
            files = [(file.source, file.path) for file in request.files]
        count = sum(store.forget_reading(source, path) for source, path in files)
        return messages.Forgotten(count)


def documents(project: ProjectFolder, request: messages.ReadDocuments) -> messages.FileOutcomes:
    """Return the outcome of every file, or of those in one state."""
    with closing(project.store()) as store:
        files = ledger(store, request.state)
    return messages.FileOutcomes(tuple(files), len(files))


HANDLERS = {
    messages.Scan: scan,
    messages.ReadSkipped: skipped,
    messages.Retry: retry,
    messages.ReadDocuments: documents,
}
