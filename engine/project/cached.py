"""Projects that `engine find` keeps in the user's cache for folders without a project."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from engine.core.disk import disk_errors, expand_home, publish_folder
from engine.core.errors import EngineError, InputError
from engine.project.folder import ProjectFolder, projects_root


def cache_root() -> Path:
    """Return the folder of the cached projects (platformdirs)."""
    from platformdirs import user_cache_path

    return user_cache_path("bmembed", appauthor=False) / "find"


def open_cached_project(folder: str | Path) -> ProjectFolder:
    """Return the cached project over `folder`, created if needed.

    Raises InputError if `folder` does not exist, UsageError if it can be no path.
    """
    source = expand_home(folder).resolve()
    if not source.exists():
        is_project = (projects_root() / folder / "project.toml").is_file()
        if is_project:
            to_do = f"To search the project: engine search {folder}."
        else:
            to_do = "Check the path."
        raise InputError(
            f"{folder} does not exist.",
            "",
            to_do,
            code="path-missing",
        )
    path = _find_place(source)
    if not (path / "project.toml").is_file():
        _create_once(path, source)
    return ProjectFolder(path)


def _create_once(path: Path, source: Path) -> None:
    """Create a project, whole or not at all, unless another process has just done so."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        with (
            disk_errors(f"The index of {source} could not be created."),
            publish_folder(temporary, path),
        ):
            ProjectFolder.create(temporary, {"corpus": {"paths": [str(source)]}})
    except EngineError:
        if not (path / "project.toml").is_file():
            raise


def find_cached_project(name: str) -> ProjectFolder | None:
    """Return the cached project over the folder at path `name`, None if there is none.

    Raises UsageError if `name` can be no path.
    """
    path = _find_place(expand_home(name).resolve())
    if (path / "project.toml").is_file():
        return ProjectFolder(path)
    return None


def find_overlapping_projects(sources: Sequence[Path]) -> list[ProjectFolder]:
    """Return the cached projects over a folder that contains, or lies in, one of `sources`."""
    folders = [source.resolve() for source in sources]
    projects = []
    for path in sorted(cache_root().glob("*/project.toml")):
        project = ProjectFolder(path.parent)
        if any(_overlaps(source, folders) for source in project.sources(project.settings())):
            projects.append(project)
    return projects


def _overlaps(source: Path, folders: Sequence[Path]) -> bool:
    """Return whether `source` contains, or lies in, one of the folders."""
    return any(source.is_relative_to(folder) or folder.is_relative_to(source) for folder in folders)


def _find_place(source: Path) -> Path:
    """Return the folder of the cached project over a folder, whether there is one or not."""
    return cache_root() / hashlib.sha256(os.fsencode(source)).hexdigest()[:16]
