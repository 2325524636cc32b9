"""The folder that the app was started in, searched in a project of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bmembed_tui.home.recents import KnownProject

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder


def find_current_folder() -> Path | None:
    """Return the current folder, if searching it as a whole makes sense.

    None for the user's home and the folders above it, for a project's folder, and for a folder
    that is gone.
    """
    try:
        current = Path.cwd()
        home = Path.home()
        is_project = (current / "project.toml").is_file()
    except (OSError, RuntimeError):  # the folder is gone, or the home is not known
        return None
    if is_project or current in (home, *home.parents):
        return None
    return current


def find_documents_folder(name: str) -> Path | None:
    """Return the folder that a project's name or path leads to, if it holds no project."""
    from engine.core.errors import UsageError
    from engine.project.folder import locate

    try:
        path = locate(name)
        if path.is_dir() and not (path / "project.toml").exists():
            return path
    except (OSError, UsageError):  # opening it shows the same error
        return None
    return None


def find_projects_over(folder: Path, projects: Iterable[KnownProject]) -> list[Path]:
    """Return the paths of the projects whose only source of documents is `folder`."""
    return [project.path for project in projects if project.documents == (folder,)]


def open_project_over(folder: Path) -> ProjectFolder:
    """Return the last used project whose only source is `folder`; create one if there is none.

    Raises EngineError.
    """
    from bmembed_tui.home.projects import list_projects
    from engine.project.folder import ProjectFolder, projects_root

    paths = find_projects_over(folder, list_projects())
    if paths:
        return ProjectFolder(paths[0])
    return ProjectFolder.create(
        projects_root() / suggest_name(folder), {"corpus": {"paths": [str(folder)]}}
    )


def suggest_name(documents: Path) -> str:
    """Return an unused project name, made from the name of a folder or file."""
    from engine.project.folder import projects_root

    characters = []
    for char in documents.name:
        if not char.isprintable() or char in '/\\:*?"<>|':  # what Windows allows in no name
            char = "-"
        characters.append(char)
    base = "".join(characters).strip(" .-~") or "documents"
    names = [base, *(f"{base}-{number}" for number in range(2, 100))]
    return next((name for name in names if not (projects_root() / name).exists()), base)
