"""The container of a bundle: writing and sealing it, and reading one that may be hostile."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

from engine.core.errors import DamagedError, InputError
from engine.core.messages.wire import MessageError, from_json
from engine.endpoint.servers import RECORD as SERVERS
from engine.project.folder import ARTIFACT_ROOTS

FORMAT = 1
MANIFEST = "manifest.json"
SETTINGS = "project.toml"
DATABASE = "project.db"
MODELS = "models"
COPIED = ("imports", "cache", "studies", SERVERS)
"""Files and folders that are copied as they are."""
TOP = {
    SETTINGS,
    DATABASE,
    MODELS,
    *ARTIFACT_ROOTS,
    *COPIED,
}
"""The first parts of paths that a bundle may hold."""
SEAL = b"sha256:"
DIGITS = 64  # Of a sha256 in hex.
MAX_RATIO = 200  # Unpacked bytes for a byte of the bundle; a ZIP bomb has 1,000 or more.
MAX_MANIFEST = 1 << 24  # Bytes.
MAX_FOLDERS = 1_000
MAX_DEPTH = 20  # Folders of a path.
MAX_NAME = 1_000  # Characters of a path.
MAX_PART = 255  # Bytes of a file's name.
BLOCK = 1 << 20  # Bytes that are read at a time.
_FOLDER = 0x10  # The attribute of a folder in MS-DOS.
# Vectors and weights, which hardly shrink.
_DENSE = (
    ".usearch",
    ".vec",
    ".npy",
    ".safetensors",
    ".onnx",
    ".gguf",
)
_PART = re.compile(
    r"""
    (?!(con|prn|aux|nul|com\d|lpt\d)(\.|$))  # names of devices on Windows, such as con.txt
    [^\x00-\x1f\x7f/\\:*?"<>|]*
    [^\x00-\x20\x7f/\\:*?"<>|.]  # the last character is no blank and no dot
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A file's name that every system allows."""
_MALFORMED = (
    BadZipFile,
    LargeZipFile,
    NotImplementedError,
    RuntimeError,
    ValueError,
    EOFError,
    OverflowError,
    IndexError,
    KeyError,
    MessageError,
    struct.error,
    zlib.error,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's size and its sha256 in hex."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list of a bundle's contents."""

    format: int  # Version of the layout.
    program: str
    created: str
    search_only: bool
    files: dict[str, Entry]  # Path → size and digest.
    folders: tuple[str, ...]  # Folders without files.
    models: dict[str, str]  # A model's name in settings and indexes → its path in the bundle.
    project: str = ""  # Name of the project.


def damaged_error(why: str, what: str = "The bundle is damaged.") -> DamagedError:
    """Return the error of a bundle that is not as it was written."""
    to_do = "Copy it again from where it was made, or bundle the project again."
    return DamagedError(
        what,
        f"{why[:1].upper()}{why[1:]}.",
        to_do,
        code="bundle-damaged",
    )


def unsafe_error(why: str) -> InputError:
    """Return the error of a bundle that this program cannot have made."""
    to_do = "Nothing was unpacked. Ask whoever gave you the file where it is from."
    return InputError(
        "The bundle is not safe to unpack.",
        f"{why}.",
        to_do,
        code="bundle-unsafe",
    )


@contextmanager
def malformed_as_damaged() -> Iterator[None]:
    """Turn what a malformed file raises in libraries and the system into DamagedError."""
    try:
        yield
    except _MALFORMED as error:
        raise damaged_error(str(error) or type(error).__name__) from error


def add_file(
    archive: ZipFile,
    name: str,
    path: Path,
) -> Entry:
    """Write a file into an archive.

    Raises OSError; InputError for a name that `unbundle` would refuse.
    """
    check_name(name)
    archive.compression = ZIP_STORED if path.suffix in _DENSE else ZIP_DEFLATED
    with path.open("rb") as source, archive.open(name, "w", force_zip64=True) as target:
        return copy_stream(source, target)


def copy_stream(source: IO[bytes], target: IO[bytes] | None) -> Entry:
    """Copy a source to its end, and return its size and digest; without `target`, only read it.

    Raises DamagedError if the source is in a damaged archive.
    """
    digest = hashlib.sha256()
    size = 0
    while True:
        with malformed_as_damaged():
            block = source.read(BLOCK)
        if not block:
            return Entry(size, digest.hexdigest())
        digest.update(block)
        size += len(block)
        if target is not None:
            target.write(block)


def new_archive(path: Path) -> ZipFile:
    """Return an empty archive whose comment has room for the seal (see `seal`)."""
    archive = ZipFile(
        path,
        "w",
        compresslevel=1,
    )
    archive.comment = SEAL + b"0" * DIGITS
    return archive


def seal(path: Path) -> str:
    """Write the sha256 of everything before it to the end of the file, sync it, and return it."""
    with path.open("r+b") as file:
        digest = _digest(file)
        file.seek(-DIGITS, os.SEEK_END)
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())
    return digest.decode()


def _digest(file: IO[bytes]) -> bytes:
    """Return the sha256 in hex of a bundle without the digits at its end."""
    digest = hashlib.sha256()
    remaining = file.seek(0, os.SEEK_END) - DIGITS
    file.seek(0)
    while remaining > 0:
        block = file.read(min(BLOCK, remaining))
        if not block:
            break
        digest.update(block)
        remaining -= len(block)
    return digest.hexdigest().encode()


def verify_seal(file: IO[bytes]) -> str:
    """Return the sha256 that a bundle ends with.

    Raises DamagedError if the bytes before it have another digest.
    """
    length = len(SEAL) + DIGITS
    if file.seek(0, os.SEEK_END) < length:
        raise damaged_error("it is too short")
    file.seek(-length, os.SEEK_END)
    end = file.read()
    if not end.startswith(SEAL):
        raise damaged_error(
            "it does not end as bundles do", "The file is no bundle, or its end is missing."
        )
    if _digest(file) != end[len(SEAL) :]:
        raise damaged_error("its sha256 is not the one that it was written with")
    return end[len(SEAL) :].decode()


def list_entries(archive: ZipFile, length: int) -> dict[str, ZipInfo]:
    """Return the entries of an archive of `length` bytes, by name.

    Raises InputError for what no bundle contains.
    """
    infos = {}
    for info in archive.infolist():
        name = info.orig_filename
        kind = stat.S_IFMT(info.external_attr >> 16)  # there, ZIP holds the mode of Unix
        is_folder = name.endswith("/") or info.external_attr & _FOLDER
        if kind not in (0, stat.S_IFREG) or is_folder:
            raise unsafe_error(f"{name!r} is a link, a folder or a device")
        if name in infos:
            raise unsafe_error(f"{name!r} is in it twice")
        is_encrypted = info.flag_bits & 1
        if is_encrypted or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise unsafe_error(f"{name!r} is packed in a way that no bundle is")
        infos[name] = info
    size = sum(info.file_size for info in infos.values())
    if size > MAX_RATIO * length:
        raise unsafe_error(f"{length:,} bytes would become {size:,}")
    return infos


def read_manifest(archive: ZipFile, infos: dict[str, ZipInfo]) -> Manifest:
    """Return the manifest, after comparing it with the archive's contents.

    Raises DamagedError, InputError.
    """
    if MANIFEST not in infos:
        raise damaged_error(f"it has no {MANIFEST}")
    if infos[MANIFEST].file_size > MAX_MANIFEST:
        raise unsafe_error(f"{MANIFEST} is too large")
    with malformed_as_damaged():
        try:
            data = json.loads(archive.read(MANIFEST))
        except RecursionError:
            raise damaged_error(f"{MANIFEST} is nested too deeply") from None
        version = data.get("format") if isinstance(data, dict) else None
        if isinstance(version, int) and version != FORMAT:
            raise InputError(
                f"The bundle has version {version}; this program reads {FORMAT}.",
                "Another version of this program wrote it.",
                "Unpack it with that version.",
                code="bundle-version",
            )
        manifest = from_json(
            Manifest,
            data,
            strict=True,
        )
    sizes = {name: info.file_size for name, info in infos.items() if name != MANIFEST}
    listed = {name: entry.bytes for name, entry in manifest.files.items()}
    if sizes != listed or not {SETTINGS, DATABASE} <= sizes.keys():
        raise damaged_error(f"{MANIFEST} lists other files than it holds")
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    """Refuse names that collide, also on disks that ignore case or forms of letters."""
    if len(manifest.folders) > MAX_FOLDERS:
        raise unsafe_error(f"It lists {len(manifest.folders):,} folders without files")
    spellings: dict[str, str] = {}  # path without differences of case and form → path
    for name in (*manifest.files, *manifest.folders, *manifest.models.values()):
        check_name(name)
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            folded = unicodedata.normalize("NFKC", path).casefold()
            if spellings.setdefault(folded, path) != path:
                raise unsafe_error(f"{name!r} and another name are the same on some disks")
            if path in manifest.files and path != name:
                raise unsafe_error(f"{path!r} is a file and a folder")
    files_and_folders = manifest.files.keys() & set(manifest.folders)
    if files_and_folders:
        raise unsafe_error(f"{min(files_and_folders)!r} is a file and a folder")
    for place in manifest.models.values():
        if not place.startswith(f"{MODELS}/"):
            raise unsafe_error(f"{place!r} is no model's place")


def check_name(name: str) -> None:
    """Raise InputError for a name outside a project, or invalid on another system."""
    parts = name.split("/")
    is_valid = all(map(_is_valid_part, parts))
    if not is_valid or len(name) > MAX_NAME or len(parts) > MAX_DEPTH or parts[0] not in TOP:
        raise unsafe_error(f"{name[:200]!r} is no file of a project")


def _is_valid_part(part: str) -> bool:
    """Return whether a name of a file or folder is valid on every system, and short enough."""
    return bool(_PART.fullmatch(part)) and len(part.encode("utf-8", "replace")) <= MAX_PART
