"""Share a project with a group: folders 2750, files 0640.

A run writes privately until its result is put in place (`engine.core.disk.publish_folder`) or the
run ends (`share_new_files`). The setgid bit of the folders passes their group on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.disk import PRIVATE, SHARED, disk_errors, is_shared
from engine.core.errors import UsageError
from engine.core.platforms import users
from engine.project.folder import ProjectFolder

# Type of an entry → its kind, as `PRIVATE` and `SHARED` name it.
KINDS = {stat.S_IFDIR: "folders", stat.S_IFREG: "files"}


@dataclass(frozen=True, slots=True)
class Sharing:
    """The permissions that sharing a project would change."""

    project: ProjectFolder
    modes: dict[str, int]  # Of `folders` and of `files`.
    group: int | None  # Its number; None keeps each entry's group.
    folders: int  # How many have another mode or group now.
    files: int  # How many have another mode or group now.
    closed: tuple[Path, ...] = ()  # Folders above the project that the group cannot pass.

    def apply(self) -> None:
        """Change the permissions without following links.

        Raises EngineError.
        """
        with disk_errors(f"The permissions of {self.project.path} could not be changed."):
            for path, kind, status in _list_entries(self.project.path):
                if _differs(status, self.modes[kind], self.group):
                    _change(
                        path,
                        self.modes[kind],
                        self.group,
                    )


def plan_sharing(project: ProjectFolder, group: str | None) -> Sharing:
    """Return what makes the project readable by a group, or with None by its owner alone.

    Raises UsageError if an entry belongs to another user, or the user is not in the group.
    """
    if not users.can_change_safely():
        raise UsageError(
            "Projects are shared on Linux only.",
            "",
            "Give others access to the project's folder with the tools of your system.",
            code="share-unavailable",
        )
    if group is None:
        number = None
        modes = PRIVATE
        closed: tuple[Path, ...] = ()
    else:
        number = _find_group(group)
        modes = SHARED
        above = project.path.resolve().parents
        closed = tuple(folder for folder in above if not _can_pass(folder, number))
    if users.is_superuser():
        owner = project.path.stat().st_uid
    else:
        owner = users.user_number()
    counts = {"folders": 0, "files": 0}
    for path, kind, status in _list_entries(project.path):
        if status.st_uid != owner:
            raise UsageError(
                f"{path} is not yours.",
                "Only its owner can change its permissions.",
                "Nothing was changed.",
                code="share-not-owner",
            )
        counts[kind] += _differs(
            status,
            modes[kind],
            number,
        )
    return Sharing(
        project,
        modes,
        number,
        **counts,
        closed=closed,
    )


def share_new_files(project: ProjectFolder) -> None:
    """Let the group read what runs have added to a shared project."""
    if not is_shared(project.path):
        return
    with suppress(OSError):
        group = project.path.stat().st_gid
        for path, kind, status in _list_entries(project.path):
            mode = SHARED[kind]
            if status.st_uid == users.user_number() and _differs(status, mode, group):
                _change(path, mode, group)


def _list_entries(top: Path) -> Iterator[tuple[Path, str, os.stat_result]]:
    """Yield (path, kind, status) of the folders and files under `top`, `top` first.

    Skips links, pipes and what a run removes during the walk.
    """
    yield top, "folders", top.stat()
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder) / name
            with suppress(FileNotFoundError):
                status = path.lstat()
                kind = KINDS.get(stat.S_IFMT(status.st_mode))
                if kind is not None:
                    yield path, kind, status


def _differs(
    status: os.stat_result,
    mode: int,
    group: int | None,
) -> bool:
    """Return whether an entry has another mode or group; with None, any group will do."""
    if stat.S_IMODE(status.st_mode) != mode:
        return True
    return group is not None and status.st_gid != group


def _change(
    path: Path,
    mode: int,
    group: int | None,
) -> None:
    """Set mode and group, unless a run has removed the file since it was listed."""
    with suppress(FileNotFoundError):
        users.change_access(path, mode, group)


def _can_pass(folder: Path, group: int) -> bool:
    """Return whether a group can reach what is in a folder."""
    status = folder.stat()
    needed = stat.S_IXGRP if status.st_gid == group else stat.S_IXOTH
    return bool(status.st_mode & needed)


def _find_group(name: str) -> int:
    """Return a group's number. Raises UsageError if the user is not in it."""
    number = users.find_group(name)
    if number is None:
        raise UsageError(
            f"There is no group {name}.", "", "'getent group' lists them.", code="group-unknown"
        )
    if not users.is_in_group(number):
        raise UsageError(
            f"You are not in the group {name}.",
            "Files can only be given to groups of one's own.",
            "Ask an administrator to add you, then log in again.",
            code="group-not-yours",
        )
    return number
