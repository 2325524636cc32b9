"""The folder that the app was started in: searched at once, in a project of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bmembed_tui.home.recents import Known

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder


def here() -> Path | None:
    """The current folder, unless it is the user's home, or none that anybody would search as a
    whole.
    """
    try:
        current = Path.cwd()
        too_much = (
            current in (Path.home(), *Path.home().parents) or (current / "project.toml").is_file()
        )
    except (OSError, RuntimeError):  # it is gone, or nobody knows the home
        return None
    return None if too_much else current


def over(folder: Path, projects: Iterable[Known]) -> list[Path]:
    """Those of `projects` that are over that folder alone."""
    return [known.path for known in projects if known.documents == (folder,)]


def project_over(folder: Path) -> ProjectFolder:
    """The project over that folder alone, of several the one that was used last, made where
    there is none. Raises EngineError.
    """
    from bmembed_tui.home.projects import known
    from engine.project.folder import ProjectFolder, projects_root

    for path in over(folder, known()):
        return ProjectFolder(path)
    return ProjectFolder.create(
        projects_root() / suggested_name(folder), {"corpus": {"paths": [str(folder)]}}
    )


def suggested_name(documents: Path) -> str:
    """A name that is not taken yet, from the name of a folder or file."""
    from engine.project.folder import projects_root

    base = "".join(
        char if char.isprintable() and char not in '/\\:*?"<>|' else "-" for char in documents.name
    )
    base = base.strip(" .-~") or "documents"
    names = [base, *(f"{base}-{number}" for number in range(2, 100))]
    return next((name for name in names if not (projects_root() / name).exists()), base)
