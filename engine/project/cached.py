"""The projects that `engine find` keeps of folders that have none of their own, in the user's
cache folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import InputError
from engine.project.folder import ProjectFolder, projects_root


def cache_root() -> Path:
    """The folder that holds them (platformdirs)."""
    from platformdirs import user_cache_path

    return user_cache_path("bmembed", appauthor=False) / "find"


def cached_project(folder: Path) -> ProjectFolder:
    """The one over `folder`, made where there is none. Raises InputError where nothing is there."""
    source = folder.expanduser().resolve()
    if not source.exists():
        is_project = (projects_root() / folder / "project.toml").is_file()
        if is_project:
            to_do = f"To search the project: engine search {folder}."
        else:
            to_do = "Check the path."
        raise InputError(f"{folder} does not exist.", "", to_do, code="path-missing")
    path = _place(source)
    if (path / "project.toml").is_file():
        return ProjectFolder(path)
    return ProjectFolder.create(path, {"corpus": {"paths": [str(source)]}})


def existing_cached_project(name: str) -> ProjectFolder | None:
    """The one over the folder that `name` is the path of, if there is one."""
    path = _place(Path(name).expanduser().resolve())
    if (path / "project.toml").is_file():
        return ProjectFolder(path)
    return None


def overlapping(sources: Sequence[Path]) -> list[ProjectFolder]:
    """Those over a folder that holds, or lies in, one of `sources`."""
    wanted = [source.resolve() for source in sources]
    found = []
    for path in sorted(cache_root().glob("*/project.toml")):
        project = ProjectFolder(path.parent)
        own = project.sources(project.settings())
        if any(a.is_relative_to(b) or b.is_relative_to(a) for a in own for b in wanted):
            found.append(project)
    return found


def _place(source: Path) -> Path:
    return cache_root() / hashlib.sha256(os.fsencode(source)).hexdigest()[:16]
