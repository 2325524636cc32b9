"""Removal of a project: what is deleted, what is kept, and where else its text may be."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from engine.core.disk import disk_errors, path_exists, write_text
from engine.core.errors import EngineError
from engine.core.messages.project import Elsewhere, Purged, Removed
from engine.core.platforms.files import PROBE, delete_file, delete_tree
from engine.encoders.graph.shared_graphs import (
    forget_project,
    forget_unused_projects,
    graphs_root,
    lock_graphs,
    unused_graphs,
)
from engine.endpoint.servers import RECORD as SERVERS
from engine.endpoint.servers import known_servers
from engine.export.folder import RECORD, known_exports, unfinished_exports
from engine.lexical.storage import MEMORY_FOLDER
from engine.project.cached import find_overlapping_projects
from engine.project.folder import OWN_FOLDERS, ProjectFolder

SETTINGS = "project.toml"
UNFINISHED = "an unfinished export"
FOUND = "index of 'engine find'"
GRAPH = "query encoder that no other project uses"
# What the engine makes in a project's folder, in words.
_MADE = {
    "lexical": "keyword index",
    "vectors": "vector index",
    "rankings": "rankings",
    "adapters": "adapters",
    "checkpoints": "checkpoints",
    "reports": "reports",
    "runs": "run logs",
    "imports": "imported queries, judgments and preferences",
    "cache": "cached vectors",
    "studies": "pages of studies and sweeps",
    "sweep": "copy of the project, figures and adapters of studies and sweeps",
    "project.db": "database: documents, chunks, queries, judgments",
    RECORD: "list of exports",
    SERVERS: "list of servers that made queries or vectors",
    SETTINGS: "settings",
}
_PATTERNS = (
    "project.db*",
    ".tmp-project.*",
    f".tmp-{RECORD}*",
    f".tmp-{SERVERS}*",
    f"{PROBE}*",
)
# The locks that are held by whatever writes into a project.
LOCKS = (
    "run",
    "stage",
    "sweep",
    "watch",
    "judging",
    "settings",
)
LOCK_SECONDS = 2.0  # A stage whose run was killed ends within moments.


def measure_purge(project: ProjectFolder) -> tuple[int, int]:
    """Return the number of files and bytes that a purge would remove."""
    cached = _find_cached(project)
    graphs = unused_graphs(without=[project.path, *cached])
    total_files = 0
    total_size = 0
    for path in (*_list_made(project.path), *unfinished_exports(project), *cached, *graphs):
        files, size = _measure(path)
        total_files += files
        total_size += size
    return total_files, total_size


def list_cached_sources(project: ProjectFolder) -> list[Path]:
    """Return the folders whose index of 'engine find' a purge would remove.

    They may be documents of other projects too.
    """
    sources: list[Path] = []
    for cached in map(ProjectFolder, _find_cached(project)):
        sources += cached.sources(cached.settings())
    return sources


def purge(project: ProjectFolder, wait: float = LOCK_SECONDS) -> Purged:
    """Remove everything that the engine has made for a project, killed exports included.

    It also leaves the list of recent projects. The user's files in the project's folder stay. An
    interrupted purge can be repeated: project.toml goes last. Raises ProjectBusyError if a run
    still holds the project after `wait` seconds, ResourceError or EngineError if the system
    refuses.
    """
    root = project.path
    with ExitStack() as locks:
        for name in LOCKS:
            locks.enter_context(project.locked(name, wait=wait))
        elsewhere = tuple(_list_elsewhere(project))
        with disk_errors(f"Not all of the project {project.name} could be removed."):
            cached = _find_cached(project)
            removed = _remove_graphs([root, *cached], wait)
            removed += [remove(path, FOUND) for path in cached]
            removed += [remove(path, UNFINISHED) for path in unfinished_exports(project)]
            for path in (root, *cached):
                forget_project(path)
            forget_unused_projects()
            removed += [remove(path) for path in _list_made(root)]
    for name in LOCKS:
        delete_file(root / f"{name}.lock")
    kept = tuple(sorted(path.name for path in root.iterdir()))
    if not kept:
        # Somebody may have just put a file into the folder.
        with suppress(OSError):
            root.rmdir()
    _forget_recent(root)
    return Purged(
        str(root),
        tuple(removed),
        kept,
        elsewhere,
    )


def _remove_graphs(without: Sequence[Path], wait: float) -> list[Removed]:
    """Remove the graphs in the data folder that no project uses, except the projects `without`.

    If the folder is read-only, or locked by another process for more than `wait` seconds, they stay
    for the next run to remove. The lock is held because a graph that a run is storing has no
    pointer yet.
    """
    removed: list[Removed] = []
    if graphs_root().is_dir():
        with suppress(OSError), lock_graphs(wait):
            for path in unused_graphs(without=without):
                removed.append(remove(path, GRAPH))
    return removed


def _list_made(root: Path) -> list[Path]:
    """Return what the engine has made in a project's folder, settings last.

    Its locks are left out, because they are held.
    """
    files = {root / RECORD, root / SERVERS}
    for pattern in _PATTERNS:
        files |= set(root.glob(pattern))
    candidates = [root / name for name in OWN_FOLDERS] + sorted(files)
    made = [path for path in candidates if path.exists() or path.is_symlink()]
    return [*made, root / SETTINGS]


def remove(path: Path, what: str = "") -> Removed:
    """Delete a file, or a folder with everything in it.

    `what`: a description, if it lies outside the project.
    """
    files, size = _measure(path)
    if path.is_dir() and not path.is_symlink():
        delete_tree(path)
    else:
        delete_file(path)
    if what:
        return Removed(
            what,
            str(path),
            files,
            size,
        )
    is_database = path.name.startswith((".tmp-project.db", "project.db"))
    name = "project.db" if is_database else path.name
    return Removed(
        _MADE.get(name, "unfinished file"),
        path.name,
        files,
        size,
    )


def _find_cached(project: ProjectFolder) -> list[Path]:
    """Return the folders that 'engine find' keeps for the same documents."""
    # Invalid settings name no documents.
    with suppress(EngineError):
        others = find_overlapping_projects(project.sources(project.settings()))
        return [other.path for other in others if other.path != project.path]
    return []


def _measure(path: Path) -> tuple[int, int]:
    """Return the number of files and bytes; nothing for a link, as its target stays."""
    if path.is_symlink():
        return 0, 0
    files = [path] if path.is_file() else []
    for folder, _, names in os.walk(path):
        files += [Path(folder, name) for name in names]
    sizes: list[int] = []
    for file in files:
        # Another process may be removing the same files.
        with suppress(FileNotFoundError):
            status = file.lstat()
            if stat.S_ISREG(status.st_mode):
                sizes.append(status.st_size)
    return len(sizes), sum(sizes)


def _list_elsewhere(project: ProjectFolder) -> Iterator[Elsewhere]:
    """Yield places outside the project where its text may be, those known for certain first."""
    # Invalid settings name no documents.
    with suppress(EngineError):
        for source in project.sources(project.settings()):
            why = "They are yours, and were only read."
            yield Elsewhere(
                "your documents",
                why,
                str(source),
                path_exists(source),
            )
    for entry in known_exports(project):
        exists = path_exists(Path(entry["folder"]))
        kinds = ", ".join(entry["kinds"])
        if not exists:
            why = "It is not there now."
        elif kinds == "bundle":
            why = "It is a bundle of the project."
        else:
            why = f"It holds: {kinds}."
        yield Elsewhere(
            "an export",
            why,
            entry["folder"],
            exists,
        )
    for name in OWN_FOLDERS:
        if (project.path / name).is_symlink():
            target = str((project.path / name).resolve())
            yield Elsewhere(
                "what a link led to",
                "The link alone was removed.",
                target,
                True,
            )
    for path in _list_leftovers():
        yield Elsewhere(
            "a file of this program", "It may be of this or of another project.", str(path), True
        )
    yield from (
        Elsewhere(
            "terminal scrollback, also of tmux and screen",
            "Hits and queries that were printed are in it.",
        ),
        Elsewhere("your shell's history", "It holds the queries of 'engine search'."),
        Elsewhere("the clipboard and its history", "Hits that were copied are in it."),
        Elsewhere(
            "lists of recent files, previews and thumbnails",
            "Viewers keep them of documents that were opened from hits.",
        ),
        Elsewhere(
            "the system's own search index", "It may have read the project's files, and exports."
        ),
        Elsewhere(
            "core dumps and reports of crashes", "They hold memory of a process that crashed."
        ),
        Elsewhere(
            "backups, snapshots and synchronised folders",
            "They keep copies of the project's folder.",
        ),
        Elsewhere("swap and hibernation files", "They may hold memory of past runs."),
        Elsewhere(
            "free space of the disk", "Deleted files can be restored until they are overwritten."
        ),
    )
    why = (
        "It was sent text of the documents, and may have been sent judged questions"
        " ('engine lab --robustness') or what was searched for (encoder.endpoint)."
    )
    for url in known_servers(project.path):
        yield Elsewhere(
            "a server that made queries or vectors",
            why,
            url,
            True,
        )


def _list_leftovers() -> Iterator[Path]:
    """Yield records of faults, and temporary folders that other commands use.

    Temporary folders that nobody uses any more are deleted.
    """
    from platformdirs import user_state_path

    from engine.lexical.storage import drop_stale_copies

    yield from sorted(user_state_path("bmembed", appauthor=False).glob("fault-*.txt"))
    for place in {Path(tempfile.gettempdir()), MEMORY_FOLDER}:
        drop_stale_copies(place)
        yield from sorted([*place.glob("bmembed-benchmark-*"), *place.glob("bmembed-index-*")])


def _forget_recent(root: Path) -> None:
    """Remove a project from the app's list of recent ones.

    A list that cannot be changed is ignored.
    """
    from platformdirs import user_state_path

    file = user_state_path("bmembed", appauthor=False) / "recent.json"
    with suppress(OSError, ValueError, TypeError):
        recent = json.loads(file.read_text(encoding="utf-8"))
        remaining = [
            path for path in recent if os.path.normpath(str(path)) != os.path.normpath(root)
        ]
        if remaining != recent:
            write_text(file, json.dumps(remaining))
