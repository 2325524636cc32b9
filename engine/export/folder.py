"""Folders outside the project that are complete or absent, and the list of those that a project has given away."""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.core.disk import complete_folder, disk_errors, write_text
from engine.core.errors import InputError, UsageError
from engine.project.folder import ProjectFolder

RECORD, LOCK = "exports.json", "work.lock"
LETTERS_OF_NAME = 80  # of the target, in the name of the folder that it is built in


def checked_target(project: ProjectFolder, target: Path, *, file: bool = False) -> Path:
    """Where an export may be written: a new or empty folder, or a new `file`, outside the project and its documents."""
    try:
        path = target.expanduser().absolute()
        parent = path.parent.resolve()
        if not parent.is_dir():
            raise InputError(
                f"{path.parent} is not a folder.", "The export goes into that folder.", "Create it, or choose another.",
                code="path-missing",
            )  # fmt: skip
        if path.is_symlink() or (path.exists() and (file or not path.is_dir() or any(path.iterdir()))):
            raise UsageError(
                f"{path} exists already.", "Nothing is overwritten.", "Choose another name, or delete it.",
                code="target-exists",
            )  # fmt: skip
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{target} cannot be written to.", f"{error}.", "Choose another folder.", code="write-failed"
        ) from None
    final = parent / path.name
    if final.is_relative_to(project.path.resolve()):
        raise UsageError(
            f"{path} is in the project.", "An export belongs outside it.", "Choose a folder elsewhere.",
            code="target-in-project",
        )  # fmt: skip
    for source in project.sources(project.settings()):
        if source.is_dir() and final.is_relative_to(source.resolve()):
            why = f"The next run would read it as documents of {source}."
            raise UsageError(
                f"{path} is among the documents.", why, "Choose a folder elsewhere.", code="target-in-documents"
            )
    return final


@contextmanager
def complete_or_absent(project: ProjectFolder, target: Path, kinds: Sequence[str]) -> Iterator[Path]:
    """Yield an empty private folder beside `target`, which takes its name when the block has ended well.

    Hold the project's lock. What killed exports of this project left is removed first. The project remembers the folder,
    from before anything is in it.
    """
    remembered = tidied(project)
    building = target.with_name(f".{target.name[:LETTERS_OF_NAME]}.{secrets.token_hex(4)}.part")
    entry = {"folder": str(target), "building": str(building), "kinds": [*kinds], "created": _now()}
    with disk_errors(f"The export to {target} could not be written."):
        _remember(project, [*remembered, entry])
        try:
            with complete_folder(building, target):
                yield building
                _make_private(building)
                if target.is_dir():
                    target.rmdir()
        except BaseException:
            _remember(project, remembered)
            raise
        others = [old for old in remembered if old.get("building") or old["folder"] != str(target)]
        _remember(project, [*others, {**entry, "building": None}])


@contextmanager
def workplace(target: Path) -> Iterator[Path]:
    """Yield an empty private folder beside `target`, removed in the end; by the next one where this process is killed."""
    from filelock import FileLock, Timeout

    name = target.name[:LETTERS_OF_NAME]
    for former in target.parent.glob(f".{glob.escape(name)}.????????.part"):
        with suppress(Timeout, OSError, NotImplementedError):
            if former.lstat().st_uid == os.geteuid() and (former / LOCK).is_file():
                with FileLock(former / LOCK, timeout=0):
                    shutil.rmtree(former, ignore_errors=True)
    folder = target.with_name(f".{name}.{secrets.token_hex(4)}.part")
    folder.mkdir(mode=0o700)
    try:
        with FileLock(folder / LOCK, mode=0o600):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remember_bundle(project: ProjectFolder, file: Path) -> None:
    """The project remembers the file, for a purge to name."""
    entry = {"folder": str(file), "building": None, "kinds": ["bundle"], "created": _now()}
    with suppress(OSError):  # a project that cannot be written to is not purged
        _remember(project, [*(one for one in known_exports(project) if one["folder"] != str(file)), entry])


def known_exports(project: ProjectFolder) -> list[dict[str, Any]]:
    """The exports of a project, finished or killed: `folder`, `building` (None when finished), `kinds`, `created`."""
    try:
        found = json.loads((project.path / RECORD).read_text(encoding="utf-8"))
        return [{**entry, "folder": str(entry["folder"]), "kinds": [*entry["kinds"]]} for entry in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def finished_exports(project: ProjectFolder) -> list[dict[str, Any]]:
    """Those that were finished, also where the export was killed between its last two steps."""
    known = [entry for entry in known_exports(project) if not _is_begun(entry)]
    finished = [entry for entry in known if not entry.get("building") or Path(entry["folder"]).is_dir()]
    return [{**entry, "building": None} for entry in finished]


def unfinished_exports(project: ProjectFolder) -> list[Path]:
    """Folders that killed exports left beside their targets."""
    return [Path(entry["building"]) for entry in known_exports(project) if _is_begun(entry)]


def tidied(project: ProjectFolder) -> list[dict[str, Any]]:
    """Remove what killed exports left; returns the exports to remember: finished ones, and those that could not be removed."""
    for folder in unfinished_exports(project):
        shutil.rmtree(folder, ignore_errors=True)
    left = [entry for entry in known_exports(project) if _is_begun(entry) or _is_away(entry)]
    return [*finished_exports(project), *left]


def _is_away(entry: dict[str, Any]) -> bool:
    """Whether an unfinished export may be on a disk that is not here now."""
    return bool(entry.get("building")) and not Path(str(entry["building"])).parent.is_dir()


def _is_begun(entry: dict[str, Any]) -> bool:
    """Whether an unfinished export is there that is one of ours: a record may come from elsewhere, and be wrong."""
    target, building = Path(entry["folder"]), Path(str(entry.get("building") or ""))
    ours = re.fullmatch(rf"\.{re.escape(target.name[:LETTERS_OF_NAME])}\.[0-9a-f]{{8}}\.part", building.name)
    try:
        found = building.lstat()
    except (OSError, ValueError):
        return False
    return (
        bool(ours) and building.parent == target.parent and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    )


def _remember(project: ProjectFolder, entries: Sequence[dict[str, Any]]) -> None:
    write_text(project.path / RECORD, json.dumps([*entries], ensure_ascii=False, indent=1) + "\n")


def _make_private(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(0o700)
        for name in names:
            (Path(parent) / name).chmod(0o600)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
