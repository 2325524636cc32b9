"""The files of a project: what a scan finds, what the last ingest left out, and what is to be read once more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from engine.project.folder import ProjectFolder
from engine.project.store.documents import UNREAD
from engine.project.store.store import Store
from engine.service import params

SKIPPED_SHOWN = 500
STATES = ("read", *UNREAD)


def scan(
    project: ProjectFolder, paths: Any = None, include: Any = None, exclude: Any = None
) -> Callable[[], dict[str, Any]]:
    """Files and bytes by format, and what would be left out; arguments stand in for project.toml's."""
    given = {"paths": paths, "include": include, "exclude": exclude}
    wanted = {name: params.texts(name, value) for name, value in given.items() if value is not None}
    return lambda: _scan(project, wanted)


def _scan(project: ProjectFolder, wanted: dict[str, list[str]]) -> dict[str, Any]:
    from engine.corpus.scan import scan
    from engine.settings.load import validate

    started = time.monotonic()
    settings = validate({"corpus": wanted})
    if len(wanted) < 3:
        corpus = project.settings().corpus.model_copy(update=settings.corpus.model_dump(include=set(wanted)))
        settings = settings.model_copy(update={"corpus": corpus})
    corpus = settings.corpus
    found = scan(
        project.sources(settings), corpus.include, corpus.exclude, follow_links=corpus.follow_links, pictures=corpus.ocr
    )
    files, sizes = Counter[str](), Counter[str]()
    for file in found.files:
        files[file.format] += 1
        sizes[file.format] += file.size
    formats = sorted(files, key=lambda name: (-sizes[name], -files[name], name))
    return {
        "formats": [{"format": name, "files": files[name], "bytes": sizes[name]} for name in formats],
        "files": files.total(),
        "bytes": sizes.total(),
        "skipped": [
            {"source": item.source, "path": item.path, "reason": item.reason} for item in found.skipped[:SKIPPED_SHOWN]
        ],
        "skipped_total": len(found.skipped),
        "seconds": round(time.monotonic() - started, 3),
    }


def skipped(project: ProjectFolder) -> Callable[[], dict[str, Any]]:
    """What the last ingest could not read (`known`: tried, and can be tried again), whole files and what is inside others, or left
    out by itself.

    All are counted, the first ones by path are listed; those that can be tried again before the others.
    """

    def task() -> dict[str, Any]:
        with closing(project.store()) as store:
            inside = (
                {"source": s, "path": path, "reason": why, "known": True} for s, path, why in store.unread_parts()
            )
            files = sorted(
                (*unsearched(store), *inside), key=lambda row: (not row["known"], row["path"], row["source"])
            )
        known = sum(row["known"] for row in files)
        return {"files": files[:SKIPPED_SHOWN], "total": len(files), "known": known}

    return task


def unsearched(store: Store, state: str | None = None) -> list[dict[str, Any]]:
    """Files that are not searched, skipped or quarantined, or of one of these states: {source, path, reason, known}, by path."""
    rows = [
        {"source": source, "path": path, "reason": why, "known": True}
        for source, path, why in store.unread_files(state)
    ]
    if state != "quarantined":  # what was not even tried is skipped
        rows += [
            {"source": row.source, "path": row.path, "reason": row.reason, "known": False} for row in store.left_out()
        ]
    return sorted(rows, key=lambda row: (row["path"], row["source"]))


def ledger(store: Store, state: str | None = None) -> list[dict[str, Any]]:
    """What became of every file, by path: {source, path, format, size, state, kind, reason, documents}.

    Raises UsageError for a state that there is not.
    """
    from engine.core.errors import UsageError

    if state is not None and state not in STATES:
        raise UsageError(
            f"There is no state '{state}'.", "The states are " + ", ".join(STATES) + ".", "Name one of them.",
            code="state-unknown",
        )  # fmt: skip
    return [asdict(row) for row in store.ledger(state)]


def retry_matching(project: ProjectFolder, globs: Sequence[str] = ()) -> int:
    """Let the next ingest read again what was not read, or not all of it; only what matches a glob where one is given.

    Raises UsageError for a malformed glob.
    """
    from engine.search.filters import path_filter

    matches = path_filter(globs)
    with project.locked(), closing(project.store()) as store, store.transaction():
        return sum(store.forget_reading(source, path) for source, path in store.unread_or_in_part() if matches(path))


def retry(project: ProjectFolder, files: Any = None) -> Callable[[], dict[str, int]]:
    """Let the next ingest read files again that were not read, or not all of them, although they did not change: all that can be,
    or those named.
    """
    if files is not None and not (isinstance(files, list) and all(isinstance(item, dict) for item in files)):
        raise TypeError("files must be a list of objects with source and path")
    named = [(params.text("source", item.get("source")), params.text("path", item.get("path"))) for item in files or ()]

    def task() -> dict[str, int]:
        with project.locked(), closing(project.store()) as store, store.transaction():
            wanted = named if files is not None else store.unread_or_in_part()
            forgotten = sum(store.forget_reading(source, path) for source, path in wanted)
        return {"forgotten": forgotten}

    return task


def documents(project: ProjectFolder, state: Any = None) -> Callable[[], dict[str, Any]]:
    """What became of every file: {files: [...], total}; of one state where it is named."""
    wanted = None if state is None else params.text("state", state)

    def task() -> dict[str, Any]:
        with closing(project.store()) as store:
            files = ledger(store, wanted)
        return {"files": files, "total": len(files)}

    return task


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {
    "scan": scan,
    "skipped": skipped,
    "retry": retry,
    "documents": documents,
}
