"""A project taken off the machine: what is removed, what is kept, and where else words of its
documents may be.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from engine.core.disk import disk_errors, write_text
from engine.core.errors import EngineError
from engine.core.messages.project import Elsewhere, Purged, Removed
from engine.encoders.graph.shared_graphs import (
    forget_project,
    forget_unused_projects,
    unused_graphs,
)
from engine.endpoint.servers import RECORD as SERVERS
from engine.endpoint.servers import known_servers
from engine.export.folder import RECORD, known_exports, unfinished_exports
from engine.project.cached import overlapping
from engine.project.folder import OWN_FOLDERS, ProjectFolder

SETTINGS = "project.toml"
UNFINISHED = "an unfinished export"
FOUND = "index of 'engine find'"
GRAPH = "query encoder that no other project uses"
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
    "sweep": "copy of the project, and figures, of studies and sweeps",
    "project.db": "database: documents, chunks, queries, judgments",
    RECORD: "list of exports",
    SERVERS: "list of servers that made queries or vectors",
    SETTINGS: "settings",
}
_PATTERNS = ("project.db*", ".tmp-project.*", f".tmp-{RECORD}", f".tmp-{SERVERS}")
LOCKS = (
    "run",
    "stage",
    "sweep",
    "watch",
    "judging",
    "settings",
)  # of all that writes into a project
LOCK_SECONDS = 2.0  # a stage whose run was killed ends within moments


def extent(project: ProjectFolder) -> tuple[int, int]:
    """Files and bytes that a purge would remove."""
    found = _found(project)
    graphs = unused_graphs(without=[project.path, *found])
    sizes = [
        _size(path) for path in (*_own(project.path), *unfinished_exports(project), *found, *graphs)
    ]
    return sum(files for files, _ in sizes), sum(size for _, size in sizes)


def found_sources(project: ProjectFolder) -> list[Path]:
    """The folders, which may be documents of other projects, too, of which a purge would remove
    the index of 'engine find'.
    """
    return [
        source
        for one in map(ProjectFolder, _found(project))
        for source in one.sources(one.settings())
    ]


def purge(project: ProjectFolder) -> Purged:
    """Remove all that the engine has made for a project, killed exports included, and its place
    in the list of recents.

    Files of the user in the project's folder stay. A purge that was broken off can be repeated:
    project.toml goes last. Raises ProjectBusyError while a run holds the project, ResourceError or
    EngineError where the system refuses.
    """
    root = project.path
    with ExitStack() as held:
        for name in LOCKS:
            held.enter_context(project.locked(name, wait=LOCK_SECONDS))
        elsewhere = tuple(_elsewhere(project))
        with disk_errors(f"Not all of the project {project.name} could be removed."):
            found = _found(project)
            elsewhere_removed = [
                *(remove(path, GRAPH) for path in unused_graphs(without=[root, *found])),
                *(remove(path, FOUND) for path in found),
                *(remove(path, UNFINISHED) for path in unfinished_exports(project)),
            ]
            for path in (root, *found):
                forget_project(path)
            forget_unused_projects()
            removed = (*elsewhere_removed, *map(remove, _own(root)))
    for name in LOCKS:
        (root / f"{name}.lock").unlink(missing_ok=True)
    kept = tuple(sorted(path.name for path in root.iterdir()))
    if not kept:
        with suppress(OSError):  # such as a folder that somebody has just put a file into
            root.rmdir()
    _forget_recent(root)
    return Purged(str(root), removed, kept, elsewhere)


def _own(root: Path) -> list[Path]:
    """What the engine has made in a project's folder, settings last; its locks are not among it:
    they are held.
    """
    files = sorted(
        {path for pattern in _PATTERNS for path in root.glob(pattern)}
        | {root / RECORD, root / SERVERS}
    )
    found = [
        path
        for path in (*(root / name for name in OWN_FOLDERS), *files)
        if path.exists() or path.is_symlink()
    ]
    return [*found, root / SETTINGS]


def remove(path: Path, what: str = "") -> Removed:
    """Delete a file or a folder with all that is in it.

    `what` it is, if it lies outside the project.
    """
    files, size = _size(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if what:
        return Removed(what, str(path), files, size)
    if path.name.startswith((".tmp-project.db", "project.db")):
        name = "project.db"
    else:
        name = path.name
    return Removed(_MADE.get(name, "unfinished file"), path.name, files, size)


def _found(project: ProjectFolder) -> list[Path]:
    """What 'engine find' keeps of the same documents."""
    with suppress(EngineError):  # settings that cannot be read name no documents
        others = overlapping(project.sources(project.settings()))
        return [one.path for one in others if one.path != project.path]
    return []


def _size(path: Path) -> tuple[int, int]:
    """Number of files and bytes; of a link nothing, as what it leads to stays."""
    if path.is_symlink():
        return 0, 0
    if path.is_file():
        files = [path]
    else:
        files = [one for one in path.rglob("*") if one.is_file() and not one.is_symlink()]
    return len(files), sum(one.stat().st_size for one in files)


def _elsewhere(project: ProjectFolder) -> Iterator[Elsewhere]:
    """What is there for certain first, then what only the user can know."""
    with suppress(EngineError):  # settings that cannot be read name no documents
        for source in project.sources(project.settings()):
            yield Elsewhere(
                "your documents",
                "They are yours, and were only read.",
                str(source),
                source.exists(),
            )
    for entry in known_exports(project):
        there = Path(entry["folder"]).exists()
        kinds = ", ".join(entry["kinds"])
        if kinds == "bundle":
            holds = "It is a bundle of the project."
        else:
            holds = f"It holds: {kinds}."
        yield Elsewhere(
            "an export", holds if there else "It is not there now.", entry["folder"], there
        )
    for name in OWN_FOLDERS:
        if (project.path / name).is_symlink():
            where = str((project.path / name).resolve())
            yield Elsewhere("what a link led to", "The link alone was removed.", where, True)
    for path in _leftovers():
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
        " (evaluation.robustness) or what was searched for (encoder.endpoint)."
    )
    yield from (
        Elsewhere("a server that made queries or vectors", why, url, True)
        for url in known_servers(project.path)
    )


def _leftovers() -> Iterator[Path]:
    """Records of faults, and temporary folders of other commands, but for those that nobody uses
    any more: they go.
    """
    from platformdirs import user_state_path

    from engine.lexical.storage import drop_stale_copies

    yield from sorted(user_state_path("bmembed", appauthor=False).glob("fault-*.txt"))
    for place in {Path(tempfile.gettempdir()), Path("/dev/shm")}:
        drop_stale_copies(place)
        yield from sorted(
            path for name in ("bmembed-benchmark-*", "bmembed-index-*") for path in place.glob(name)
        )


def _forget_recent(root: Path) -> None:
    """Take a project off the app's list of recents.

    A list that cannot be changed is no reason to fail.
    """
    from platformdirs import user_state_path

    file = user_state_path("bmembed", appauthor=False) / "recent.json"
    with suppress(OSError, ValueError, TypeError):
        former = json.loads(file.read_text(encoding="utf-8"))
        kept = [path for path in former if os.path.normpath(str(path)) != os.path.normpath(root)]
        if kept != former:
            write_text(file, json.dumps(kept))
