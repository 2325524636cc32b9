"""Projects that were opened lately, in the user's state folder. Losing the list loses nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.disk import write_text

KEPT = 20


@dataclass(frozen=True)
class Known:
    """A project on this machine.

    `doing`: what its run does; `problem`: why it cannot be opened; `documents`: what it is over.
    """

    path: Path
    running: bool = False
    doing: str = ""
    problem: str = ""
    documents: tuple[Path, ...] = ()


def recents_file() -> Path:
    """Where the list is stored."""
    from platformdirs import user_state_path

    return user_state_path("bmembed", appauthor=False) / "recent.json"


def recent() -> list[Path]:
    """Folders of projects opened lately that still hold one, the latest first."""
    return [path for path in listed() if _holds_project(path)]


def listed() -> list[Path]:
    """As `recent`, without a look at the folders: some may be gone."""
    try:
        found = json.loads(recents_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if isinstance(found, list):
        return [Path(text) for text in found if isinstance(text, str)]
    return []


def _holds_project(path: Path) -> bool:
    try:
        return (path / "project.toml").is_file()
    except (OSError, ValueError):
        return False


def remember(path: Path) -> None:
    """Put a project at the head of the list.

    The others are not looked at: their disks may be gone, and answer late.
    """
    paths = [str(path), *(str(other) for other in listed() if other != path)][:KEPT]
    target = recents_file()
    with suppress(OSError):  # a list that cannot be kept must not keep anyone from working
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(target, json.dumps(paths))
