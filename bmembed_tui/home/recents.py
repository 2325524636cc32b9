"""The list of lately opened projects in the user's state folder. It may be lost without harm."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.disk import write_text

MAX_RECENTS = 20


@dataclass(frozen=True)
class KnownProject:
    """A project on this machine."""

    path: Path
    running: bool = False
    activity: str = ""  # what its run does, such as `Train · step 120 of 400`
    problem: str = ""  # why it cannot be opened
    documents: tuple[Path, ...] = ()  # its folders and files


def recents_file() -> Path:
    """Return the path of the list."""
    from platformdirs import user_state_path

    return user_state_path("bmembed", appauthor=False) / "recent.json"


def list_recent_projects() -> list[Path]:
    """Return the folders of lately opened projects that still exist, the latest first."""
    return [path for path in read_recents() if _holds_project(path)]


def read_recents() -> list[Path]:
    """Return the list without looking at the folders, some of which may be gone."""
    try:
        entries = json.loads(recents_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if isinstance(entries, list):
        return [Path(entry) for entry in entries if isinstance(entry, str)]
    return []


def _holds_project(path: Path) -> bool:
    """Return whether a folder is that of a project; false where it cannot be read."""
    try:
        return (path / "project.toml").is_file()
    except (OSError, ValueError):
        return False


def remember(path: Path) -> None:
    """Put a project at the head of the list.

    The other folders are not looked at: their disks may be gone, or slow to answer.
    """
    others = [str(other) for other in read_recents() if other != path]
    paths = [str(path), *others][:MAX_RECENTS]
    target = recents_file()
    with suppress(OSError):  # the app works without the list
        target.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        write_text(target, json.dumps(paths))
