"""The index folder: tantivy's files in a sub-folder, and the manifest `bm25.json`.

The manifest has the size and sha256 of each file, since tantivy does not notice flipped bits when
it opens.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from engine.core.disk import file_sha256, remembered_sha256
from engine.core.errors import DamagedError, ResourceError
from engine.core.platforms.files import is_writable, try_remove_tree
from engine.core.platforms.processes import is_alive

FORMAT_VERSION = 1
MANIFEST = "bm25.json"
# Beginning of the names of private copies; the id of their process follows.
_COPY = "bmembed-index-"
MEMORY_FOLDER = Path("/dev/shm")
# Files of the process that has opened the index, which are no part of it.
_LOCKS = {".tantivy-meta.lock", ".tantivy-writer.lock"}
# A file of a segment, which is named by a UUID.
_SEGMENT = re.compile(r"[0-9a-f]{32}\.")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of `bm25.json`."""

    language: str
    """Main language."""
    count: int = 0
    """Number of chunks."""
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Name of a file in the sub-folder → (bytes, hex sha256)."""
    version: int = FORMAT_VERSION
    languages: dict[str, int] = field(default_factory=dict)
    """Language → number of chunks; empty if all are analysed in `language`."""


def damage_error(folder: Path, why: str) -> DamagedError:
    """Build the error for an index that cannot be trusted."""
    return DamagedError(
        f"The keyword index in {folder} is damaged.",
        f"{why}.",
        "Run 'engine run' to build it again.",
        code="index-damaged",
        stage="index",
        command="run",
    )


def files_folder(folder: Path) -> Path:
    """Return the folder of tantivy's files."""
    return folder / "generation-1"


def ensure_lockable(folder: Path) -> Path:
    """Return the folder, or a private copy if it is read-only.

    tantivy needs a lock file even to read. The copy is in memory (/dev/shm) if there is room. It is
    deleted with the index that is opened there; if this process is killed, by the next process that
    makes a copy. Raises ResourceError if there is no room for it.
    """
    if is_writable(folder):
        return folder
    files = [path for path in folder.iterdir() if path.name not in _LOCKS]
    size = sum(path.stat().st_size for path in files)
    place = Path(tempfile.gettempdir())
    if os.access(MEMORY_FOLDER, os.W_OK):
        free = shutil.disk_usage(MEMORY_FOLDER).free
        if free > 2 * size:
            place = MEMORY_FOLDER
    drop_stale_copies(place)
    prefix = f"{_COPY}{os.getpid()}-"
    try:
        copy = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        atexit.register(try_remove_tree, copy)
        for path in files:
            shutil.copyfile(path, copy / path.name)
    except OSError as error:
        raise ResourceError(
            f"The keyword index in {folder} cannot be opened.",
            f"Its folder is read-only, and a copy of it could not be made: {error}.",
            f"Free some space in {place}, or make the project's folder writable.",
            code="write-failed",
        ) from error
    return copy


def drop_stale_copies(place: Path) -> None:
    """Remove the copies of processes that no longer run."""
    for path in place.glob(f"{_COPY}*"):
        process_id = path.name.removeprefix(_COPY).partition("-")[0]
        if process_id.isdecimal() and not is_alive(int(process_id)):
            try_remove_tree(path)


def describe_files(
    folder: Path, known: Mapping[str, tuple[int, str]] = MappingProxyType({})
) -> dict[str, tuple[int, str]]:
    """Return (size, sha256) of each of tantivy's files, and make the files private.

    `known`: the values of a former index. They are reused for its segments, since tantivy never
    changes a segment.
    """
    files = {}
    for path in sorted(folder.iterdir()):
        if path.name in _LOCKS:
            continue
        path.chmod(0o600)
        if path.name in known and _SEGMENT.match(path.name):
            files[path.name] = known[path.name]
        else:
            files[path.name] = (path.stat().st_size, file_sha256(path))
    return files


def link_files(source: Path, target: Path) -> None:
    """Put the files of an index into `target`, which is created.

    Segments are hard links if the disk supports them; the rest are copies.
    """
    target.mkdir(mode=0o700, parents=True)
    for path in source.iterdir():
        if path.name in _LOCKS:
            continue
        if _SEGMENT.match(path.name):
            with suppress(OSError):
                os.link(path, target / path.name)
                continue
        shutil.copyfile(path, target / path.name)


def count_documents(folder: Path) -> tuple[int, int]:
    """Return (documents that tantivy's statistics count, deleted ones among them).

    Raises ValueError, KeyError or OSError.
    """
    segments = json.loads((folder / "meta.json").read_bytes())["segments"]
    counted = sum(segment["max_doc"] for segment in segments)
    deletions = [segment["deletes"] for segment in segments if segment["deletes"]]
    return counted, sum(deletion["num_deleted_docs"] for deletion in deletions)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest and check every file that it names. Raises DamagedError."""
    try:
        data = json.loads((folder / MANIFEST).read_text("utf-8"))
        version = data["version"]
        if version != FORMAT_VERSION:
            raise damage_error(
                folder, f"It has format {version}; this version reads format {FORMAT_VERSION}"
            )
        files = data["files"].items()
        languages = data["languages"].items()
        manifest = Manifest(
            language=str(data["language"]),
            count=int(data["count"]),
            files={str(name): (int(size), str(digest)) for name, (size, digest) in files},
            languages={str(code): int(count) for code, count in languages},
        )
    except FileNotFoundError as error:
        raise damage_error(folder, f"{MANIFEST} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(
            folder, f"{MANIFEST} cannot be read ({type(error).__name__}: {error})"
        ) from error
    _check_files(folder, manifest)
    return manifest


def _check_files(folder: Path, manifest: Manifest) -> None:
    """Raise DamagedError unless every file has the size and digest of the manifest."""
    files = files_folder(folder)
    if not manifest.files:
        raise damage_error(folder, f"{MANIFEST} names no files")
    for name, (size, digest) in manifest.files.items():
        path = files / name
        try:
            current_digest = remembered_sha256(path)
            current_size = path.stat().st_size
        except OSError as error:
            raise damage_error(folder, f"{name} cannot be read ({error.strerror})") from error
        if current_size != size:
            raise damage_error(folder, f"{name} has {current_size} bytes instead of {size}")
        if current_digest != digest:
            raise damage_error(folder, f"The contents of {name} have changed since it was written")
