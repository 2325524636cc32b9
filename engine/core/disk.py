"""Files that are complete or unchanged after a crash, and disk errors that a user can act on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.core.errors import EngineError, ResourceError, UsageError, reason_of
from engine.core.platforms.files import (
    open_private,
    rename,
    replace,
    set_group,
    set_mode,
    sync,
    try_remove_tree,
)

_digests: dict[tuple[int, ...], str] = {}

PRIVATE = {"folders": 0o700, "files": 0o600}
SHARED = {"folders": 0o2750, "files": 0o640}
"""Modes in a project: PRIVATE for its owner alone, SHARED for a group too ('engine share')."""


def is_shared(folder: Path) -> bool:
    """Return whether new files in a folder should be readable by its group."""
    try:
        return stat.S_IMODE(folder.stat().st_mode) == SHARED["folders"]
    except OSError:
        return False


def file_mode(folder: Path) -> int:
    """Return the mode of a new file in a folder."""
    modes = SHARED if is_shared(folder) else PRIVATE
    return modes["files"]


def path_exists(path: Path) -> bool:
    """Return whether there is a file or folder; False also if the system refuses to say.

    `Path.exists` raises for a folder without rights and for a network drive that has vanished.
    """
    return os.path.exists(path)


def expand_home(path: str | os.PathLike[str]) -> Path:
    """Return a path whose `~` is replaced by the user's home folder.

    Raises UsageError for an empty text, which is no path, and for the home of an unknown user.
    """
    try:
        if path == "":
            raise RuntimeError("It is empty")
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"'{path}' names no folder or file.",
            reason_of(error),
            "Give the whole path.",
            code="path-invalid",
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a small file so that it is complete or unchanged after a crash.

    It is private unless its folder is shared. If two processes write it at once, the last one wins.
    """
    temporary = path.with_name(f".tmp-{path.name}-{secrets.token_hex(4)}")
    with replace_file(path, temporary) as file:
        file.write(text.encode("utf-8"))


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_sha256(value: object) -> str:
    """Return the hex sha256 of a value that has a JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def remembered_sha256(path: Path) -> str:
    """Return `file_sha256`, computed once in this process for a file's identity, size and mtime."""
    status = path.stat()
    key = (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )
    if key not in _digests:
        _digests[key] = file_sha256(path)
    return _digests[key]


@contextmanager
def replace_file(path: Path, temporary: Path) -> Iterator[BinaryIO]:
    """Yield a file named `temporary` that replaces `path` if the block ends without an exception.

    It is private unless its folder is shared.
    """
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(descriptor, "wb") as file:
            set_mode(descriptor, file_mode(path.parent))
            yield file
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the block into an error that a user can act on.

    `what`: the first sentence of the error, such as `The export could not be written.`
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "Free some disk space and try again."
            raise ResourceError(
                what,
                reason_of(error),
                advice,
                code="disk-full",
            ) from error
        advice = "Check the disk and the folder's permissions."
        raise EngineError(
            what,
            reason_of(error),
            advice,
            code="write-failed",
        ) from error


def check_room(
    folder: Path,
    size: int,
    otherwise: str = "choose another disk",
) -> None:
    """Raise ResourceError if the folder's disk has less than `size` bytes free.

    `otherwise`: what to do instead of freeing space.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        raise ResourceError(
            "There is not enough room on the disk.",
            f"{size:,} bytes are needed; {free:,} are free in {folder}.",
            f"Free some, or {otherwise}.",
            code="disk-full",
        )


@contextmanager
def publish_folder(temporary: Path, final: Path) -> Iterator[Path]:
    """Yield the empty private folder `temporary`; sync and rename it to `final` on success.

    On an exception it is removed.
    """
    try_remove_tree(temporary)
    temporary.mkdir(mode=0o700, parents=True)
    try:
        yield temporary
        if is_shared(final.parent):
            _open_to_group(temporary, final.parent.stat().st_gid)
        sync_tree(temporary)
        rename(temporary, final)
    except BaseException:
        try_remove_tree(temporary)
        raise
    sync(final.parent)


def _open_to_group(folder: Path, group: int) -> None:
    """Give a folder and all in it to a group, with the modes of a shared project."""
    for parent, _, names in os.walk(folder):
        _set_shared_mode(
            Path(parent),
            "folders",
            group,
        )
        for name in names:
            _set_shared_mode(
                Path(parent) / name,
                "files",
                group,
            )


def _set_shared_mode(
    path: Path,
    kind: str,
    group: int,
) -> None:
    """Set group and mode of a path in a shared project. `kind`: `folders` or `files`."""
    set_group(path, group)
    path.chmod(SHARED[kind])


def sync_tree(folder: Path) -> None:
    """Sync a folder and everything in it to disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def read_tree(path: Path, suffixes: Collection[str] = ()) -> dict[str, bytes]:
    """Return the files below a folder, or one file, by their relative paths.

    `suffixes`: only files with one of these, if any are given. `write_tree` writes them on another
    machine. Raises OSError.
    """
    if path.is_file():
        return {path.name: path.read_bytes()}
    files = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and (not suffixes or file.suffix in suffixes):
            files[file.relative_to(path).as_posix()] = file.read_bytes()
    return files


def write_tree(files: Mapping[str, bytes], folder: Path) -> None:
    """Write what `read_tree` returned below `folder`.

    Raises OSError.
    """
    for name, content in files.items():
        (folder / name).parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        (folder / name).write_bytes(content)


def get_file_size(path: Path) -> int:
    """Return the bytes of a file; 0 for anything else, and for a file that was just removed."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
