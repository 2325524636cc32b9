"""A project that a group reads: folders 2750, whose group is that of all that is made in them,
and files 0640.

What a run makes is private until it is put in place (`engine.core.disk.complete_folder`) or the run
ends (`follow`).
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
from engine.project.folder import ProjectFolder

KINDS = {stat.S_IFDIR: "folders", stat.S_IFREG: "files"}


@dataclass(frozen=True, slots=True)
class Sharing:
    """What is to change.

    `modes`: of folders and of files. `group`: its number, None where it stays. `folders`, `files`:
    how many have other modes or another group now. `closed`: folders above the project that the
    group cannot pass.
    """

    project: ProjectFolder
    modes: dict[str, int]
    group: int | None
    folders: int
    files: int
    closed: tuple[Path, ...] = ()

    def apply(self) -> None:
        """Change it, and nothing that a link leads to. Raises EngineError."""
        with disk_errors(f"The permissions of {self.project.path} could not be changed."):
            for path, kind, found in _entries(self.project.path):
                if _differs(found, self.modes[kind], self.group):
                    _change(path, self.modes[kind], self.group)


def sharing(project: ProjectFolder, group: str | None) -> Sharing:
    """What makes the project readable by a group, or with None by its owner alone.

    Raises UsageError where something in it is another user's, or where the group is none of the
    user's.
    """
    if not hasattr(os, "O_PATH"):
        raise UsageError(
            "Projects are shared on Linux only.",
            "",
            "Use chmod and chgrp.",
            code="share-unavailable",
        )
    if group is None:
        number = None
    else:
        number = _group(group)
    counts = {"folders": 0, "files": 0}
    if os.geteuid() == 0:
        owner = project.path.stat().st_uid
    else:
        owner = os.geteuid()
    modes = PRIVATE if group is None else SHARED
    for path, kind, found in _entries(project.path):
        if found.st_uid != owner:
            raise UsageError(
                f"{path} is not yours.",
                "Only its owner can change its permissions.",
                "Nothing was changed.",
                code="share-not-owner",
            )
        counts[kind] += _differs(found, modes[kind], number)
    if number is None:
        above = []
    else:
        above = [one for one in project.path.resolve().parents if not _passes(one, number)]
    return Sharing(project, modes, number, **counts, closed=tuple(above))


def follow(project: ProjectFolder) -> None:
    """Let the group read what has come into a shared project since."""
    if not is_shared(project.path):
        return
    with suppress(OSError):
        group = project.path.stat().st_gid
        for path, kind, found in _entries(project.path):
            if found.st_uid == os.geteuid() and _differs(found, SHARED[kind], group):
                _change(path, SHARED[kind], group)


def _entries(top: Path) -> Iterator[tuple[Path, str, os.stat_result]]:
    """Folders and files, `top` first; links, pipes and what a run removes meanwhile are passed
    over.
    """
    yield top, "folders", top.stat()
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder) / name
            with suppress(FileNotFoundError):
                found = path.lstat()
                if kind := KINDS.get(stat.S_IFMT(found.st_mode)):
                    yield path, kind, found


def _differs(found: os.stat_result, mode: int, group: int | None) -> bool:
    return stat.S_IMODE(found.st_mode) != mode or (group is not None and found.st_gid != group)


def _change(path: Path, mode: int, group: int | None) -> None:
    """Not by opening it: to close a file again takes the locks off that SQLite holds on it in
    this process.
    """
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):  # a link may have come in its place
                place = Path(f"/proc/self/fd/{descriptor}")
                if group is not None:
                    os.chown(place, -1, group)
                place.chmod(mode)
        finally:
            os.close(descriptor)


def _passes(folder: Path, group: int) -> bool:
    found = folder.stat()
    return bool(found.st_mode & (stat.S_IXGRP if found.st_gid == group else stat.S_IXOTH))


def _group(name: str) -> int:
    import grp

    try:
        number = grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(
            f"There is no group {name}.", "", "'getent group' lists them.", code="group-unknown"
        ) from None
    if os.geteuid() != 0 and number not in (os.getegid(), *os.getgroups()):
        raise UsageError(
            f"You are not in the group {name}.",
            "Files can only be given to groups of one's own.",
            "Ask an administrator to add you, then log in again.",
            code="group-not-yours",
        )
    return number
