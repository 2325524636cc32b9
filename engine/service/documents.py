"""The files of a project: what a scan finds, what the last ingest left out, and what is to be
read once more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from engine.core.errors import unknown
from engine.core.messages import documents as messages
from engine.core.messages.wire import to_json
from engine.project.folder import ProjectFolder
from engine.project.store.files import UNREAD
from engine.project.store.store import Store

SKIPPED_SHOWN = 500
STATES = ("read", *UNREAD)


def scan(project: ProjectFolder, request: messages.Scan) -> messages.Scanned:
    """Files and bytes by format, and what would be left out."""
    from engine.corpus.scan.scan import scan as scan_files
    from engine.settings.load import validate

    started = time.monotonic()
    wanted = to_json(request)
    settings = validate({"corpus": wanted})
    if len(wanted) < 3:
        corpus = project.settings().corpus.model_copy(
            update=settings.corpus.model_dump(include=set(wanted))
        )
        settings = settings.model_copy(update={"corpus": corpus})
    corpus = settings.corpus
    found = scan_files(
        project.sources(settings),
        corpus.include,
        corpus.exclude,
        follow_links=corpus.follow_links,
        pictures=corpus.ocr,
    )
    files = Counter[str]()
    sizes = Counter[str]()
    for file in found.files:
        files[file.format] += 1
        sizes[file.format] += file.size
    formats = sorted(files, key=lambda name: (-sizes[name], -files[name], name))
    return messages.Scanned(
        tuple(messages.FormatCount(name, files[name], sizes[name]) for name in formats),
        files.total(),
        sizes.total(),
        tuple(
            messages.LeftOut(str(item.source), item.path, item.reason)
            for item in found.skipped[:SKIPPED_SHOWN]
        ),
        len(found.skipped),
        round(time.monotonic() - started, 3),
    )


def skipped(project: ProjectFolder, _request: messages.ReadSkipped) -> messages.UnreadFiles:
    """All are counted, the first ones by path are listed; those that can be tried again before
    the others.
    """
    with closing(project.store()) as store:
        inside = (
            messages.Unread(source, path, why, True) for source, path, why in store.unread_parts()
        )
        files = sorted(
            (*unsearched(store), *inside), key=lambda one: (not one.known, one.path, one.source)
        )
    return messages.UnreadFiles(
        tuple(files[:SKIPPED_SHOWN]), len(files), sum(one.known for one in files)
    )


def unsearched(store: Store, state: str | None = None) -> list[messages.Unread]:
    """Files that are not searched, skipped or quarantined, or of one of these states, by path."""
    found = [
        messages.Unread(source, path, why, True) for source, path, why in store.unread_files(state)
    ]
    if state != "quarantined":  # what was not even tried is skipped
        found += [
            messages.Unread(row.source, row.path, row.reason, False) for row in store.left_out()
        ]
    return sorted(found, key=lambda one: (one.path, one.source))


def ledger(store: Store, state: str | None = None) -> list[messages.FileOutcome]:
    """What became of every file, by path. Raises UsageError for a state that there is not."""
    if state is not None and state not in STATES:
        raise unknown("state", state, STATES, code="state-unknown")
    return store.ledger(state)


def retry_matching(project: ProjectFolder, globs: Sequence[str] = ()) -> int:
    """Let the next ingest read again what was not read, or not all of it; only what matches a
    glob where one is given.

    Raises UsageError for a malformed glob.
    """
    from engine.search.filters import path_filter

    matches = path_filter(globs)
    with project.locked(), closing(project.store()) as store, store.transaction():
        return sum(
            store.forget_reading(source, path)
            for source, path in store.unread_or_in_part()
            if matches(path)
        )


def retry(project: ProjectFolder, request: messages.Retry) -> messages.Forgotten:
    """Let the next ingest read files again although they did not change: all that can be, or
    those named.
    """
    with project.locked(), closing(project.store()) as store, store.transaction():
        wanted = store.unread_or_in_part()
        if request.files is not None:
            wanted = [(file.source, file.path) for file in request.files]
        return messages.Forgotten(
            sum(store.forget_reading(source, path) for source, path in wanted)
        )


def documents(project: ProjectFolder, request: messages.ReadDocuments) -> messages.FileOutcomes:
    """What became of every file."""
    with closing(project.store()) as store:
        files = ledger(store, request.state)
    return messages.FileOutcomes(tuple(files), len(files))


HANDLERS = {
    messages.Scan: scan,
    messages.ReadSkipped: skipped,
    messages.Retry: retry,
    messages.ReadDocuments: documents,
}
