"""Fetch, add, check and remove a model, for a user interface."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from engine.core.disk import disk_errors, expand_home
from engine.core.errors import InputError, UsageError
from engine.core.messages.models import ModelChange
from engine.gguf.library import add_model
from engine.gguf.places import real_path
from engine.models.catalogue import CatalogueModel, get_catalogue_model
from engine.models.files import ModelPart, check_name, hash_part, is_data, is_pickle
from engine.models.hub import Progress, discard, fetch_model
from engine.models.installed import (
    InstalledModel,
    check_model_name,
    check_target,
    install,
    models_folder,
    read_installed,
    remove,
    staged_folder,
    verify,
)
from engine.models.packs import SUFFIX, check_pack_is_new, is_pack, unpack, write_pack
from engine.service.model_kinds import check_usable, find_kind
from engine.service.model_list import find_uses

Stop = Callable[[], bool]


def _never_stop() -> bool:
    """Return False, as the default of callbacks that ask whether to stop."""
    return False


def get_model(
    name: str,
    to: Path | None = None,
    progress: Progress = lambda done, total: None,
    should_stop: Stop = _never_stop,
) -> ModelChange:
    """Fetch a model of the catalogue and install it, or write it as a pack into the folder `to`.

    A pack of an installed model is made from the installed files. Raises what `fetch_model` and
    `install` raise, and ModelError for a model that cannot be loaded.
    """
    entry = get_catalogue_model(name)
    if to is not None:
        return _write_pack(entry, to, progress, should_stop)
    check_target(entry.name)
    with _fetch_checked(entry, progress, should_stop) as (folder, model):
        return _build_change(model, install(folder, model))


def _write_pack(
    entry: CatalogueModel, to: Path, progress: Progress, should_stop: Stop
) -> ModelChange:
    """Write a pack of a model into the folder `to`, and fetch the model if it is not installed."""
    target = check_pack_target(to, entry.name)
    installed = read_installed(entry.name)
    if installed and installed.repository == entry.repository:
        verify(installed, should_stop)
        write_pack(
            installed.folder,
            installed,
            target,
            should_stop,
        )
        return _build_change(installed, target)
    with _fetch_checked(entry, progress, should_stop) as (folder, model):
        write_pack(folder, model, target, should_stop)
        return _build_change(model, target)


@contextmanager
def _fetch_checked(
    entry: CatalogueModel, progress: Progress, should_stop: Stop
) -> Iterator[tuple[Path, InstalledModel]]:
    """Fetch a model, check that it can be loaded, and yield its temporary folder.

    The folder is deleted at the end of the block, unless it was installed.
    """
    folder, model = fetch_model(entry, progress, should_stop)
    try:
        check_usable(model.kind, folder)
        yield folder, model
    finally:
        discard(folder)


def check_pack_target(folder: Path, name: str) -> Path:
    """Return the path for a new pack in a folder.

    Raises UsageError if the pack exists, InputError if the folder does not.
    """
    folder = expand_home(folder).absolute()
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder}.",
            "",
            "Make it first, or name another.",
            code="path-missing",
        )
    target = folder / f"{name}{SUFFIX}"
    check_pack_is_new(target)
    return target


def add(
    source: Path, *, link: bool = False, name: str = "", should_stop: Stop = _never_stop
) -> ModelChange:
    """Copy a pack, a folder or a GGUF file into the folder of models.

    `link` links to a GGUF file instead of copying it. Raises InputError if there is no such file,
    ModelError if the model is unusable or unsafe, UsageError if its name is taken.
    """
    source = expand_home(source).absolute()
    if not source.exists():
        raise InputError(
            f"{source} does not exist.",
            "",
            "Check the path.",
            code="path-missing",
        )
    if source.is_dir():
        return _add_folder(source, name, should_stop)
    if source.is_file() and is_pack(source):
        return _add_pack(source, name, should_stop)
    path = add_model(
        source,
        link=link,
        name=name,
        should_stop=should_stop,
    )
    return ModelChange(
        path.name,
        "language model",
        path,
        "",
        1,
        path.stat().st_size,
    )


def _add_pack(
    source: Path,
    name: str,
    should_stop: Stop,
) -> ModelChange:
    """Unpack a model pack, check the model and install it under its name or another."""
    from engine.models.packs import read_pack_manifest

    model = read_pack_manifest(source)
    model = replace(model, name=check_model_name(name or model.name))
    check_target(model.name)
    with staged_folder(model.name) as folder:
        unpack(source, folder, should_stop)
        check_usable(model.kind, folder)
        path = install(folder, model)
    return _build_change(model, path)


def _add_folder(
    source: Path,
    name: str,
    should_stop: Stop,
) -> ModelChange:
    """Copy a folder's files that loading may read, check the model and install it."""
    from engine.encoders.model_folder import folder_name

    name = check_model_name(name or folder_name(source))
    check_target(name)
    kind = find_kind(source)
    check_usable(kind, source)
    with staged_folder(name) as folder:
        parts = tuple(_copy_files(source, folder, should_stop))
        check_usable(kind, folder)
        model = InstalledModel(
            name,
            kind,
            "",
            "",
            "",
            parts,
        )
        path = install(folder, model)
    return _build_change(model, path)


def _copy_files(
    source: Path,
    target: Path,
    should_stop: Stop,
) -> Iterator[ModelPart]:
    """Copy the files that loading may read, and yield the record of each.

    Links are followed. Hidden files, pickles and code are not copied.
    """
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        name = relative.as_posix()
        is_hidden = any(part.startswith(".") for part in relative.parts)
        if is_hidden or not path.is_file() or not is_data(name) or is_pickle(name):
            continue
        copy = target / check_name(name)
        with disk_errors(f"{copy} could not be written."):
            copy.parent.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
            shutil.copyfile(path, copy)
        yield hash_part(copy, name, should_stop)


def _build_change(model: InstalledModel, path: Path) -> ModelChange:
    """Return the message that a model was installed, packed or checked at a path."""
    return ModelChange(
        model.name,
        model.kind,
        path,
        model.revision,
        len(model.files),
        model.size,
    )


def remove_model(name: str) -> Path:
    """Delete a model from the folder of models.

    Raises UsageError if a project uses it or if there is no such model.
    """
    installed = read_installed(name)
    path = installed.path if installed else models_folder() / name
    projects = find_uses().get(real_path(path), [])
    if projects:
        raise UsageError(
            f"The model {name} was not removed.",
            f"It is used by {', '.join(projects)}.",
            "Choose another model there first.",
            code="model-in-use",
        )
    return remove(name)


def verify_model(name: str, should_stop: Stop = _never_stop) -> ModelChange:
    """Check every file of an installed model.

    Raises ModelError if a file has changed, UsageError if no such model was installed.
    """
    model = read_installed(name)
    if model is None:
        raise UsageError(
            f"There is no model {name} that could be checked.",
            f"In {models_folder()}, it has no list of digests.",
            "'engine models' lists them. Models that were added before have none; add them again.",
            code="model-missing",
        )
    verify(model, should_stop)
    return _build_change(model, model.path)
