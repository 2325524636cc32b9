"""Folders outside the project that are complete or absent, and the list of those that a project has given away."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.disk import disk_errors, sync_folder, sync_tree, write_text
from engine.errors import InputError, UsageError
from engine.project import ProjectFolder

RECORD = "exports.json"


def checked_target(project: ProjectFolder, target: Path) -> Path:
    """Where an export may be written: a new or empty folder, outside the project and the documents that it reads."""
    try:
        path = target.expanduser().absolute()
        parent = path.parent.resolve()
        if not parent.is_dir():
            raise InputError(
                f"{path.parent} is not a folder.", "The export is put into it.", "Make it, or choose another."
            )
        if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
            raise UsageError(f"{path} exists already.", "Nothing is overwritten.", "Choose another name, or delete it.")
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{target} cannot be written to.", f"{error}.", "Choose another folder.") from None
    final = parent / path.name
    if final.is_relative_to(project.path.resolve()):
        raise UsageError(
            f"{path} lies in the project.", "An export is to be taken away from it.", "Choose a folder elsewhere."
        )
    for source in project.sources(project.settings()):
        if source.is_dir() and final.is_relative_to(source.resolve()):
            why = f"The next run would read it as documents of {source}."
            raise UsageError(f"{path} lies among the documents.", why, "Choose a folder elsewhere.")
    return final


@contextmanager
def complete_or_absent(project: ProjectFolder, target: Path, kinds: Sequence[str]) -> Iterator[Path]:
    """Yield an empty private folder beside `target`, which takes its name when the block has ended well.

    Hold the project's lock. What a killed export of this project left is removed first. The project remembers the folder,
    from before anything is in it.
    """
    remembered = forget_unfinished(project)
    building = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.part")
    entry = {"folder": str(target), "building": str(building), "kinds": [*kinds], "created": _now()}
    with disk_errors(f"The export to {target} could not be written."):
        _remember(project, [*remembered, entry])
        try:
            building.mkdir(mode=0o700)
            yield building
            _make_private(building)
            sync_tree(building)
            if target.is_dir():
                target.rmdir()
            building.rename(target)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            _remember(project, remembered)
            raise
        sync_folder(target.parent)
        _remember(project, [*(old for old in remembered if old["folder"] != str(target)), {**entry, "building": None}])


def known_exports(project: ProjectFolder) -> list[dict[str, Any]]:
    """The exports of a project, finished or killed: `folder`, `building` (None when finished), `kinds`, `created`."""
    try:
        found = json.loads((project.path / RECORD).read_text(encoding="utf-8"))
        return [{**entry, "folder": str(entry["folder"]), "kinds": [*entry["kinds"]]} for entry in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def forget_unfinished(project: ProjectFolder) -> list[dict[str, Any]]:
    """Remove what killed exports left beside their targets; returns the exports that were finished."""
    finished = []
    for entry in known_exports(project):
        building = entry.get("building")
        if building and Path(building).is_dir():
            shutil.rmtree(building, ignore_errors=True)
        elif not building or Path(entry["folder"]).is_dir():  # killed between its last two steps
            finished.append({**entry, "building": None})
    return finished


def _remember(project: ProjectFolder, entries: Sequence[dict[str, Any]]) -> None:
    write_text(project.path / RECORD, json.dumps([*entries], ensure_ascii=False, indent=1) + "\n")


def _make_private(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(0o700)
        for name in names:
            (Path(parent) / name).chmod(0o600)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
