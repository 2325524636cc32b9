"""Graphs of encoders without an adapter, stored once in the user's data folder.

An index that uses one has a pointer to it. A missing or damaged graph is written again by the next
run; until then a search loads the whole encoder. Only graphs that were just written and compared
are stored here, never those of a project, which may be a stranger's bundle.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.core.disk import (
    PRIVATE,
    disk_errors,
    is_shared,
    json_sha256,
    publish_folder,
    write_text,
)
from engine.core.platforms.files import try_remove_tree
from engine.encoders.graph.graph_files import (
    FACTS,
    FILES,
    FOLDER,
    copy_graph,
    read_facts,
    remove_graph,
)

POINTER = "shared.json"
"""File in an index that names a graph in the data folder."""
PROJECTS = "projects"
"""Folder among the graphs with one file per project that uses any; it holds the project's path."""
FORM = 1
"""Version of the files that `QueryGraph` expects."""
LOCK_SECONDS = 60.0
"""How long a process waits for another that writes there."""
_NAME = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger(__name__)


def graphs_root() -> Path:
    """Return the folder of the graphs (platformdirs)."""
    from platformdirs import user_data_path

    return user_data_path("bmembed", appauthor=False) / "query-encoders"


def graph_name(encoder: str) -> str:
    """Return the name of the folder of an encoder's graph. `encoder`: its fingerprint."""
    return json_sha256({"encoder": encoder, "form": FORM})


def find_graph(index: Path) -> Path:
    """Return the folder of an index's graph, which may be missing.

    It is the index's own, or the folder in the data folder to which the index has a pointer. With a
    pointer, the project's path is recorded, since the project may have been moved.
    """
    own_folder = index / FOLDER
    if (own_folder / FACTS).is_file():
        return own_folder
    name = _read_pointer(own_folder / POINTER)
    if name is None:
        return own_folder
    # A read-only data folder can still be read.
    with suppress(OSError):
        _record_project(index.parents[1])
    return graphs_root() / name


def is_pointer_closed_to_group(index: Path) -> bool:
    """Return whether an index has a pointer that the project's group cannot follow.

    The group cannot read this user's data folder.
    """
    own_folder = index / FOLDER
    return (
        (own_folder / POINTER).is_file()
        and not (own_folder / FACTS).is_file()
        and _is_for_group(index)
    )


def is_graph_shared(encoder: str) -> bool:
    """Return whether the data folder has a graph of an encoder (a fingerprint), intact or not."""
    return (graphs_root() / graph_name(encoder) / FACTS).is_file()


def use_shared_graph(index: Path, encoder: str) -> bool:
    """Give an index the data folder's graph of an encoder (a fingerprint).

    Returns whether there is such a graph. The index's sub-folder must exist. It gets a pointer, or
    a copy if a group reads the project.
    """
    folder = graphs_root() / graph_name(encoder)
    if not folder.is_dir():
        return False
    try:
        with lock_graphs():
            facts = read_facts(folder)
            if facts is None or facts["encoder"] != encoder:
                return False
            if _is_for_group(index):
                copy_graph(
                    folder,
                    index / FOLDER,
                    link=False,
                )
            else:
                _write_pointer(index, folder.name)
    except OSError as error:
        _log.info("The graph in %s is not used: %s", folder, error)
        return False
    return True


def publish_graph(index: Path, encoder: str) -> None:
    """Move an index's graph, just written and compared, to the data folder and leave a pointer.

    It stays in the index if a group reads the project or the data folder is read-only.
    """
    if _is_for_group(index):
        return
    name = graph_name(encoder)
    try:
        with lock_graphs():
            folder = graphs_root() / name
            if read_facts(folder) is None:
                try_remove_tree(folder)
                with publish_folder(folder.with_name(f".tmp-{name}"), folder) as temporary:
                    copy_graph(
                        index / FOLDER,
                        temporary,
                        link=True,
                    )
                    for file in FILES:
                        (temporary / file).chmod(PRIVATE["files"])
            _write_pointer(index, name)
            remove_graph(index / FOLDER)
            _remove_unused()
    except OSError as error:
        _log.info("The graph in %s is not shared: %s", index, error)


def copy_shared_graphs(project: Path) -> None:
    """Replace the pointers of a project by copies of the graphs, so that a group can read them.

    The pointer to a damaged graph stays, and the next run writes that graph again. Raises
    EngineError.
    """
    with disk_errors(f"The query encoder could not be copied into {project}."):
        for pointer in _find_pointers(project):
            graph = find_graph(pointer.parents[1])
            if read_facts(graph) is None:
                continue
            if graph != pointer.parent:
                copy_graph(
                    graph,
                    pointer.parent,
                    link=False,
                )
            pointer.unlink()


def files_in_place_of(path: Path) -> list[Path]:
    """Return the files to copy to another machine for `path`: for a pointer, those of its graph."""
    if path.name != POINTER or path.parent.name != FOLDER:
        return [path]
    graph = find_graph(path.parents[1])
    if graph == path.parent or read_facts(graph) is None:
        return [path]
    return [graph / name for name in FILES]


def unused_graphs(without: Collection[Path] = ()) -> list[Path]:
    """Return the folders of graphs that no project uses, not counting the projects `without`."""
    root = graphs_root()
    if not root.is_dir():
        return []
    used: set[str] = set()
    for project in _read_projects():
        if project in without:
            continue
        for pointer in _find_pointers(project):
            name = _read_pointer(pointer)
            if name is not None:
                used.add(name)
    graphs = [path for path in root.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(path for path in graphs if path.name not in used)


def forget_unused_projects() -> None:
    """Remove projects that use no graph from the list of users.

    They were deleted, or moved, in which case they are listed again when they are used.
    """
    for project in list(_read_projects()):
        if not _find_pointers(project):
            forget_project(project)


def forget_project(project: Path) -> None:
    """Remove a project from the list of those that use graphs in the data folder."""
    with suppress(OSError):
        _project_record(project).unlink(missing_ok=True)


def _is_for_group(index: Path) -> bool:
    """Return whether a group may read the project of an index, which is PROJECT/vectors/INDEX."""
    return is_shared(index.parents[1])


def _write_pointer(index: Path, name: str) -> None:
    """Let an index point to the graph of a name, and record its project as a user of graphs."""
    write_text(index / FOLDER / POINTER, json.dumps({"graph": name, "form": FORM}))
    _record_project(index.parents[1])


def _read_pointer(path: Path) -> str | None:
    """Return the name of the graph in a pointer, or None if it is missing or damaged."""
    try:
        name = json.loads(path.read_text(encoding="utf-8"))["graph"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    return None


def _find_pointers(project: Path) -> list[Path]:
    """Find the pointers of a project, including those in hidden folders of unfinished indexes."""
    return sorted(project.glob(f"*/*/{FOLDER}/{POINTER}"))


def _project_record(project: Path) -> Path:
    """Return the file that lists a project as a user of graphs, named by the project's path."""
    digest = hashlib.sha256(os.fsencode(project.absolute())).hexdigest()
    return graphs_root() / PROJECTS / f"{digest}.json"


def _record_project(project: Path) -> None:
    """List a project as a user of graphs, so that these are not deleted as unused."""
    record = _project_record(project)
    if record.is_file():
        return
    record.parent.mkdir(mode=0o700, exist_ok=True)
    write_text(record, json.dumps(str(project.absolute())))


def _read_projects() -> Iterator[Path]:
    """Yield the paths of the projects that are listed as users of graphs."""
    for record in (graphs_root() / PROJECTS).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            yield Path(json.loads(record.read_text(encoding="utf-8")))


def _remove_unused() -> None:
    """Remove unused graphs, leftovers of killed processes, and records of projects that use none.

    The caller holds the lock.
    """
    for folder in [*unused_graphs(), *graphs_root().glob(".tmp-*")]:
        try_remove_tree(folder)
    forget_unused_projects()


@contextmanager
def lock_graphs(wait: float = LOCK_SECONDS) -> Iterator[None]:
    """Create the folder of the graphs if it is missing, and lock it for this process.

    Raises OSError, also after `wait` seconds.
    """
    from filelock import FileLock

    root = graphs_root()
    root.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    with FileLock(root / ".lock", timeout=wait, mode=0o600):
        yield
