"""Model packs: one file with a model and the digests of its files, for machines without a network.

A pack is a ZIP archive without compression: `manifest.json`, then the files below `files/`.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

from engine.core.disk import check_room, disk_errors, replace_file
from engine.core.errors import ModelError, UsageError
from engine.models.files import altered_error, check_part, check_weights, is_data, read_blocks
from engine.models.installed import InstalledModel, format_manifest, parse_manifest

SUFFIX = ".modelpack"
MANIFEST = "manifest.json"
FILES = "files/"
MAX_MANIFEST = 1 << 20  # bytes
_EPOCH = (
    1980,
    1,
    1,
    0,
    0,
    0,
)
"""The first time that a ZIP archive can hold: equal models give equal packs."""


def is_pack(path: Path) -> bool:
    """Return whether a file is a model pack by its name or its first bytes."""
    if path.suffix.lower() == SUFFIX:
        return True
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def check_pack_is_new(target: Path) -> None:
    """Raise UsageError if the pack to be written exists already."""
    if target.exists():
        raise UsageError(
            f"{target} already exists.",
            "Nothing was overwritten.",
            "Remove it, or choose another folder.",
            code="target-exists",
        )


def write_pack(
    folder: Path,
    model: InstalledModel,
    target: Path,
    should_stop: Callable[[], bool] = lambda: False,
) -> Path:
    """Write a model's files and manifest to the file `target`, which appears once complete.

    Raises UsageError if it exists, ResourceError on a full disk, CancelledError.
    """
    check_pack_is_new(target)
    with disk_errors(f"{target} could not be written."):
        check_room(target.parent, model.size)
        temporary = target.with_name(f".tmp-{target.name}")
        with (
            replace_file(target, temporary) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            archive.writestr(zipfile.ZipInfo(MANIFEST, _EPOCH), format_manifest(model))
            for part in model.files:
                _write_file(
                    archive,
                    folder / part.path,
                    FILES + part.path,
                    should_stop,
                )
    return target


def _write_file(
    archive: zipfile.ZipFile, source: Path, name: str, should_stop: Callable[[], bool]
) -> None:
    """Add a file under a name, block by block."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.file_size = source.stat().st_size
    with source.open("rb") as old, archive.open(info, "w", force_zip64=True) as new:
        for block in read_blocks(old, should_stop):
            new.write(block)


def read_pack_manifest(path: Path) -> InstalledModel:
    """Read the manifest of a pack without unpacking anything.

    Raises ModelError for a pack that is damaged or unsafe.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_manifest(archive)
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError) as error:
        raise _invalid_error(path, str(error)) from error


def unpack(
    path: Path, folder: Path, should_stop: Callable[[], bool] = lambda: False
) -> InstalledModel:
    """Unpack a pack into an empty folder, check every file, and return its manifest.

    Files are named by the manifest alone, and written as plain files. Raises ModelError for a pack
    that is damaged, altered or unsafe, ResourceError on a full disk, CancelledError.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            model = _read_manifest(archive)
            with disk_errors(f"{folder} could not be written."):
                check_room(folder, model.size)
            for part in model.files:
                target = folder / part.path
                with disk_errors(f"{target} could not be written."):
                    target.parent.mkdir(
                        mode=0o700,
                        parents=True,
                        exist_ok=True,
                    )
                _unpack_file(
                    archive,
                    FILES + part.path,
                    target,
                    part.size,
                    should_stop,
                )
                check_part(target, part, should_stop)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise _invalid_error(path, str(error)) from error
    return model


def _read_manifest(archive: zipfile.ZipFile) -> InstalledModel:
    """Read the manifest of a pack after comparing it with all names in the pack."""
    path = Path(archive.filename or "")
    entries = archive.infolist()
    by_name = {entry.filename: entry for entry in entries}
    manifest = by_name.get(MANIFEST)
    if manifest is None or manifest.file_size > MAX_MANIFEST:
        raise _invalid_error(path, "It has no manifest.")
    model = parse_manifest(archive.read(manifest))
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)  # there, ZIP holds the mode of Unix
        if kind not in (0, stat.S_IFREG):
            raise _unsafe_error(path, f"{entry.filename!r} is a link, a folder or a device.")
        is_encrypted = entry.flag_bits & 1
        if entry.compress_type != zipfile.ZIP_STORED or is_encrypted:
            raise _unsafe_error(path, f"{entry.filename!r} is compressed or encrypted.")
    expected = {MANIFEST, *(FILES + part.path for part in model.files)}
    if len(entries) != len(by_name) or by_name.keys() != expected:
        unmatched = min(by_name.keys() ^ expected, default=MANIFEST)
        raise _unsafe_error(
            path, f"{unmatched!r} is not in both the pack and its manifest, or is there twice."
        )
    for part in model.files:
        if not is_data(part.path):
            raise _unsafe_error(
                path, f"{part.path} is neither weights, configuration nor a tokenizer."
            )
    names = [part.path for part in model.files]
    check_weights(names, names)
    return model


def _unpack_file(
    archive: zipfile.ZipFile,
    name: str,
    target: Path,
    size: int,
    should_stop: Callable[[], bool],
) -> None:
    """Write a file of a pack. Raises ModelError for one of more than `size` bytes."""
    written = 0
    with (
        disk_errors(f"{target} could not be written."),
        archive.open(name) as source,
        target.open("xb") as file,
    ):
        for block in read_blocks(source, should_stop):
            written += len(block)
            if written > size:
                raise altered_error(name, f"It has more than {size:,} bytes.")
            file.write(block)


def _invalid_error(path: Path, why: str) -> ModelError:
    return ModelError(
        f"{path.name} is no model pack, or is damaged.",
        why,
        "Copy it again, or write it again: 'engine models get NAME --to FOLDER'.",
        code="model-pack-invalid",
    )


def _unsafe_error(path: Path, why: str) -> ModelError:
    return ModelError(
        f"The model pack {path.name} was not taken: it is unsafe.",
        why,
        "Do not use it; write a new one: 'engine models get NAME --to FOLDER'.",
        code="model-files-unsafe",
    )
