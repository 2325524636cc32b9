"""The models in the user's data folder: their names, origins and integrity."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.core.disk import disk_errors, sync_tree, write_text
from engine.core.errors import ModelError, UsageError
from engine.core.platforms.files import delete_file, delete_tree, rename, sync, try_remove_tree
from engine.models.catalogue import KINDS, CatalogueModel, Kind, find_model
from engine.models.files import ModelPart, altered_error, check_name, check_part

MANIFEST = ".model.json"
"""File in a model's folder with its origin and the digest of each file."""
PARTIAL = ".partial"
"""Folder among the models for those that are incomplete."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model in the folder of models.

    `repository` and `revision` (a commit) are empty if it was copied from a folder.
    """

    name: str
    kind: Kind
    repository: str
    revision: str
    licence: str
    files: tuple[ModelPart, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(part.size for part in self.files)

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return models_folder() / self.name

    @property
    def path(self) -> Path:
        """The path for settings: the (first) GGUF file of a language model, else the folder."""
        if self.kind != "language model":
            return self.folder
        files = [part.path for part in self.files if part.path.lower().endswith(".gguf")]
        return self.folder / min(files)


def models_folder() -> Path:
    """Return the folder of models that `engine models get` and `add` fill.

    It is in the user's data folder.
    """
    from platformdirs import user_data_path

    return user_data_path("bmembed", appauthor=False) / "models"


def free_space() -> int:
    """Return the free bytes of the disk that models are kept on."""
    folder = models_folder()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def format_manifest(model: InstalledModel) -> str:
    """Return a model's manifest as JSON."""
    return json.dumps(
        {"version": 1, **asdict(model)},
        indent=1,
        ensure_ascii=False,
    )


def parse_manifest(text: str | bytes) -> InstalledModel:
    """Read a manifest. Raises ModelError if it is invalid or a name in it is unsafe."""
    try:
        data = json.loads(text)
        if data["version"] != 1 or data["kind"] not in KINDS:
            raise ValueError("its version or kind is unknown")
        files = tuple(_parse_part(part) for part in data["files"])
        model = InstalledModel(
            name=check_model_name(str(data["name"])),
            kind=data["kind"],
            repository=str(data["repository"]),
            revision=str(data["revision"]),
            licence=str(data["licence"]),
            files=files,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            "The manifest of the model cannot be read.",
            f"{error}",
            "Get the model again.",
            code="model-pack-invalid",
        ) from error
    if not files or len({part.path.lower() for part in files}) != len(files):
        raise ModelError(
            "The manifest of the model cannot be read.",
            "It names no file, or one twice.",
            "Get the model again.",
            code="model-pack-invalid",
        )
    return model


def _parse_part(data: Any) -> ModelPart:
    """Read a file's entry in a manifest. Raises ModelError, ValueError, KeyError, TypeError."""
    part = ModelPart(
        check_name(str(data["path"])), int(data["size"]), str(data["sha256"]), str(data["blob_id"])
    )
    if part.size < 0 or not re.fullmatch(r"[0-9a-f]{64}", part.sha256):
        raise ValueError(f"{part.path} has no size or no digest")
    return part


def check_model_name(name: str) -> str:
    """Return a valid name of a model's folder. Raises ModelError for an invalid one."""
    if not _NAME.fullmatch(name):
        raise ModelError(
            f"A model cannot have the name {name[:100]!r}.",
            "Letters, digits, '.', '_' and '-' are allowed.",
            "Choose another with --name.",
            code="model-files-unsafe",
        )
    return name


def read_installed(name: str) -> InstalledModel | None:
    """Return an installed model by its name, or None if it is missing or has no manifest."""
    if not _NAME.fullmatch(name):
        return None
    file = models_folder() / name / MANIFEST
    try:
        return parse_manifest(file.read_bytes())
    except (OSError, ModelError):
        return None


def list_installed() -> list[InstalledModel]:
    """List the installed models that have a manifest, by name."""
    folder = models_folder()
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir())
    return [model for model in map(read_installed, names) if model is not None]


def find_installed_folder(name: str) -> Path | None:
    """Return a model's folder by its name, or its name or repository in the catalogue.

    None if it is not installed.
    """
    names = [name]
    entry = find_model(name)
    if entry:
        names.append(entry.name)
    for candidate in names:
        folder = models_folder() / candidate
        if _NAME.fullmatch(candidate) and folder.is_dir():
            return folder
    return None


def find_entry_of(folder: Path) -> CatalogueModel | None:
    """Return the catalogue's entry of an installed model, or None for other folders."""
    if folder.parent != models_folder():
        return None
    installed = read_installed(folder.name)
    if installed and installed.repository:
        return find_model(installed.repository)
    return None


@contextmanager
def staged_folder(name: str) -> Iterator[Path]:
    """Yield an empty folder for a model that is being copied; it is removed if the block fails."""
    folder = models_folder() / PARTIAL / f"{name}.{os.getpid()}"
    with disk_errors(f"{folder} could not be written."):
        try_remove_tree(folder)
        folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        try_remove_tree(folder)
        remove_empty_partial()


def remove_empty_partial() -> None:
    """Remove the folder of incomplete models if it is empty."""
    partial = models_folder() / PARTIAL
    if partial.is_dir() and not any(partial.iterdir()):
        partial.rmdir()


def install(folder: Path, model: InstalledModel) -> Path:
    """Move a checked folder with its manifest to its place, atomically.

    Raises UsageError if another model is there.
    """
    check_target(model.name)
    with disk_errors(f"{model.folder} could not be written."):
        write_text(folder / MANIFEST, format_manifest(model))
        sync_tree(folder)
        rename(folder, model.folder)
        sync(model.folder.parent)
    return model.path


def check_target(name: str) -> None:
    """Raise UsageError if a model of that name is installed."""
    check_model_name(name)
    if os.path.lexists(models_folder() / name):
        raise UsageError(
            f"There is a model {name} already.",
            f"It lies in {models_folder() / name}.",
            f"To fetch it again, remove it first: 'engine models remove {name}'.",
            code="target-exists",
        )


def verify(model: InstalledModel, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Compare every file of a model with its manifest.

    Raises ModelError for the first that differs.
    """
    for part in model.files:
        path = model.folder / part.path
        if path.is_symlink() or not path.is_file():
            raise altered_error(part.path, "It is missing, or no plain file.")
        check_part(path, part, should_stop)


def remove(name: str) -> Path:
    """Delete an installed model and return its former folder.

    Raises UsageError if there is none.
    """
    path = models_folder() / check_model_name(name)
    is_file = path.suffix.lower() == ".gguf" and (path.is_file() or path.is_symlink())
    if not is_file and not (path / MANIFEST).is_file():
        raise UsageError(
            f"There is no model {name} to remove.",
            f"Only models in {models_folder()} are removed.",
            "'engine models' lists them.",
            code="model-missing",
        )
    with disk_errors(f"{path} could not be removed."):
        if is_file:
            delete_file(path)
        else:
            # A half-deleted model must not be found.
            removed = models_folder() / PARTIAL / f"removed-{name}"
            removed.parent.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
            try_remove_tree(removed)
            rename(path, removed)
            delete_tree(removed)
            remove_empty_partial()
    return path
