"""The folder that the app was started in: searched at once, in a project of its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder


def here() -> Path | None:
    """The current folder, unless it is the user's home, or none that anybody would search as a whole."""
    try:
        current = Path.cwd()
        too_much = current in (Path.home(), *Path.home().parents) or (current / "project.toml").is_file()
    except (OSError, RuntimeError):  # it is gone, or nobody knows the home
        return None
    return None if too_much else current


def project_over(folder: Path) -> ProjectFolder:
    """The project over that folder alone, made where there is none. Raises EngineError."""
    from bmembed_tui.home.recents import recent
    from engine.core.errors import EngineError
    from engine.project.folder import ProjectFolder, known_projects, projects_root

    for path in (*recent(), *known_projects()):
        with suppress(EngineError):  # its settings are wrong
            project = ProjectFolder(path)
            if project.settings().corpus.paths == [str(folder)]:
                return project
    return ProjectFolder.create(projects_root() / suggested_name(folder), {"corpus": {"paths": [str(folder)]}})


def suggested_name(documents: Path) -> str:
    """A name that is not taken yet, from the name of a folder or file."""
    from engine.project.folder import projects_root

    base = "".join(char if char.isprintable() and char not in '/\\:*?"<>|' else "-" for char in documents.name)
    base = base.strip(" .-~") or "documents"
    names = [base, *(f"{base}-{number}" for number in range(2, 100))]
    return next((name for name in names if not (projects_root() / name).exists()), base)
