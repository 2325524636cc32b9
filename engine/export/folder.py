"""Folders outside the project that are complete or absent, and the list of a project's exports."""

from __future__ import annotations

import glob
import json
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.core.disk import disk_errors, publish_folder, write_text
from engine.core.errors import InputError, UsageError, reason_of
from engine.core.platforms.files import try_remove_tree
from engine.core.platforms.locks import is_held
from engine.core.platforms.users import user_number
from engine.project.folder import ProjectFolder

RECORD = "exports.json"
LOCK = "work.lock"
MAX_NAME = 80  # Letters of the target's name in the name of its workplace.


def check_target(
    project: ProjectFolder,
    target: Path,
    *,
    file: bool = False,
) -> Path:
    """Return where an export may be written: a new or empty folder, or a new `file`.

    It must lie outside the project and its documents; else UsageError, or InputError for a missing
    parent folder.
    """
    try:
        path = target.expanduser().absolute()
        parent = path.parent.resolve()
        if not parent.is_dir():
            to_do = "Create it, or choose another."
            raise InputError(
                f"{path.parent} is not a folder.",
                "",
                to_do,
                code="path-missing",
            )
        if _is_taken(path, file):
            raise _build_taken_error(project, path, file)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{target} cannot be written to.",
            reason_of(error),
            "Choose another folder.",
            code="write-failed",
        ) from None
    final = parent / path.name
    if final.is_relative_to(project.path.resolve()):
        raise UsageError(
            f"{path} is in the project.",
            "An export belongs outside it.",
            "Choose a folder elsewhere.",
            code="target-in-project",
        )
    for source in project.sources(project.settings()):
        if final.is_relative_to(source.resolve()):
            why = f"The next run would read it as documents of {source}."
            raise UsageError(
                f"{path} is among the documents.",
                why,
                "Choose a folder elsewhere.",
                code="target-in-documents",
            )
    return final


def _is_taken(path: Path, file: bool) -> bool:
    """Return whether a target exists; an empty folder counts only if a `file` is to be written."""
    if path.is_symlink():
        return True
    return path.exists() and (file or not path.is_dir() or any(path.iterdir()))


def _build_taken_error(
    project: ProjectFolder,
    path: Path,
    file: bool,
) -> UsageError:
    """Return the error of a target that exists. Never advises to delete a folder of the user's."""
    to_do = "Choose another name, or delete it."
    if path.is_dir():
        suggestion = path / (f"{project.name}.bundle" if file else f"{project.name}-export")
        to_do = f"Choose another name, such as {suggestion}."
    return UsageError(
        f"{path} exists already.", "Nothing was overwritten.", to_do, code="target-exists"
    )


@contextmanager
def complete_or_absent(
    project: ProjectFolder, target: Path, kinds: Sequence[str]
) -> Iterator[Path]:
    """Yield an empty private folder, which becomes `target` when the block has succeeded.

    The caller holds the project's lock. Leftovers of killed exports of this project are removed
    first. The project remembers the folder before anything is written to it.
    """
    for leftover in unfinished_exports(project):
        try_remove_tree(leftover)
    with (
        disk_errors(f"The export to {target} could not be written."),
        workplace(target) as work,
        remembering(project, target, kinds),
        publish_folder(work / "export", target) as folder,
    ):
        yield folder
        _make_private(folder)
        # An empty folder may be there already, in the way of the new one.
        if target.is_dir():
            target.rmdir()


@contextmanager
def workplace(target: Path) -> Iterator[Path]:
    """Yield an empty private folder next to `target`, which is removed at the end.

    If this process is killed, the next export removes it.
    """
    from filelock import FileLock

    for leftover in _find_leftovers(target):
        try_remove_tree(leftover)
    folder = target.with_name(f".{target.name[:MAX_NAME]}.{secrets.token_hex(4)}.part")
    folder.mkdir(mode=0o700)
    try:
        with FileLock(folder / LOCK, mode=0o600):
            yield folder
    finally:
        try_remove_tree(folder)


def _find_leftovers(target: Path) -> Iterator[Path]:
    """Yield the workplaces next to `target` whose processes were killed: ours, with free locks."""
    name = glob.escape(target.name[:MAX_NAME])
    for folder in target.parent.glob(f".{name}.????????.part"):
        with suppress(OSError, NotImplementedError):
            status = folder.lstat()
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == user_number()
            lock = folder / LOCK
            # Windows does not remove a folder in which a lock is held, not even our own.
            if is_ours and lock.is_file() and not is_held(lock):
                yield folder


@contextmanager
def remembering(
    project: ProjectFolder,
    target: Path,
    kinds: Sequence[str],
) -> Iterator[None]:
    """Record an export in the project, so that a purge can name it, unless the block raises.

    It is recorded before the block, as the export may be killed.
    """
    former_exports = known_exports(project)
    other_exports = [entry for entry in former_exports if entry["folder"] != str(target)]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    export = {
        "folder": str(target),
        "kinds": list(kinds),
        "created": now,
    }
    _write_record(project, [*other_exports, export])
    try:
        yield
    except BaseException:
        _write_record(project, former_exports)
        raise


def known_exports(project: ProjectFolder) -> list[dict[str, Any]]:
    """Return the exports of a project, finished or killed: `folder`, `kinds`, `created`."""
    try:
        entries = json.loads((project.path / RECORD).read_text(encoding="utf-8"))
        return [
            {**entry, "folder": str(entry["folder"]), "kinds": [*entry["kinds"]]}
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def unfinished_exports(project: ProjectFolder) -> list[Path]:
    """Return folders that killed exports left next to their targets."""
    folders: list[Path] = []
    for entry in known_exports(project):
        folders += _find_leftovers(Path(entry["folder"]))
    return folders


def _write_record(project: ProjectFolder, entries: Sequence[dict[str, Any]]) -> None:
    write_text(project.path / RECORD, json.dumps([*entries], ensure_ascii=False, indent=1) + "\n")


def _make_private(folder: Path) -> None:
    """Close a folder and everything in it to other users."""
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(0o700)
        for name in names:
            (Path(parent) / name).chmod(0o600)
