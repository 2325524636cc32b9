"""A copy of a project, so that what is tried with it leaves the project as it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from engine.core.disk import complete_folder, disk_errors
from engine.project.folder import ProjectFolder


def copied(project: ProjectFolder, place: Path, names: Iterable[str]) -> ProjectFolder:
    """A new project in `place` with the settings, the database and the `names` of folders of `project`: whole or absent.

    Its runs are not copied. Raises ProjectBusyError while a run holds the project, ResourceError when the disk is full.
    """
    building = complete_folder(place.with_name(f".tmp-{place.name}"), place)
    with project.locked(), disk_errors(f"The project {project.name} could not be copied."), building as temporary:
        for name in names:
            if (project.path / name).is_dir():
                shutil.copytree(project.path / name, temporary / name)
        shutil.copy(project.path / "project.toml", temporary / "project.toml")
        with closing(project.store()) as store:
            store.backup(temporary / "project.db")
    return ProjectFolder(place)
