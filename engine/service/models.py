"""Models for a user interface: all kinds in one list, and fetching, adding, checking and
removing one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

from engine.core.disk import disk_errors
from engine.core.errors import EngineError, InputError, UsageError
from engine.core.messages.encoders import EncoderFile
from engine.core.messages.models import ListedModel, ModelChange
from engine.core.messages.queries import ModelFile
from engine.encoders.choosing.library import list_encoders
from engine.gguf.header import not_a_writer, read_header
from engine.gguf.library import add_model, list_models
from engine.gguf.places import real_path
from engine.models.catalogue import CatalogueModel, Kind, get_catalogue_model, read_catalogue
from engine.models.files import ModelPart, check_name, hash_part, is_data, is_pickle
from engine.models.hub import Progress, discard, fetch_model
from engine.models.installed import (
    InstalledModel,
    check_model_name,
    check_target,
    install,
    list_installed,
    own_folder,
    read_installed,
    remove,
    staged_folder,
    verify,
)
from engine.models.packs import SUFFIX, is_pack, unpack, write_pack
from engine.project.folder import ProjectFolder, known_projects

Stop = Callable[[], bool]
HEAD = "ForSequenceClassification"


def _go_on() -> bool:
    return False


def list_all_models(context: int, free: int | None = None) -> list[ListedModel]:
    """List the models on this machine, then those of the catalogue that are not here.

    `context`: tokens that a language model keeps room for; `free`: bytes of memory, else measured.
    """
    if free is None:
        import psutil

        free = int(psutil.virtual_memory().available)
    installed = {real_path(model.path): model for model in list_installed()}
    uses = find_uses()
    found = [_list_writer(file, installed, uses) for file in list_models(context, free)]
    listed = {real_path(model.path) for model in found if model.path}
    for encoder in list_encoders():
        path = _encoder_path(encoder)
        if path not in listed:
            found.append(_list_encoder(encoder, path, installed, uses, free))
    for model in installed.values():
        if model.kind == "reranker":
            found.append(_list_reranker(model, uses, free))
    here = {model.name for model in installed.values()}
    disk = _free_disk()
    for entry in read_catalogue():
        if entry.name not in here:
            found.append(_list_entry(entry, free, disk))
    return found


def _list_writer(
    file: ModelFile, installed: dict[Path, InstalledModel], uses: dict[Path, list[str]]
) -> ListedModel:
    path = real_path(file.path)
    known = {field.name: getattr(file, field.name) for field in fields(ModelFile)}
    return ListedModel(**known, used_by=tuple(uses.get(path, ())), **_facts(installed.get(path)))


def _facts(model: InstalledModel | None) -> dict[str, str]:
    if model is None:
        return {}
    return {"name": model.name, "licence": model.licence, "revision": model.revision}


def _encoder_path(encoder: EncoderFile) -> Path:
    from engine.encoders.model_folder import BUNDLED_NAMES, bundled_folder

    return real_path(bundled_folder() if encoder.model in BUNDLED_NAMES else Path(encoder.model))


def _list_encoder(
    encoder: EncoderFile,
    path: Path,
    installed: dict[Path, InstalledModel],
    uses: dict[Path, list[str]],
    free: int,
) -> ListedModel:
    memory = encoder.size
    return ListedModel(
        path=path,
        place=encoder.place,
        names=encoder.names,
        size=encoder.size,
        architecture=None,
        quantisation=None,
        parameters=None,
        context=encoder.max_tokens,
        chat_template=None,
        problem=encoder.problem,
        memory=memory,
        fits=None if encoder.problem else memory <= free,
        kind="encoder",
        languages=encoder.languages,
        dimension=encoder.dimension,
        used_by=tuple(uses.get(path, ())),
        **_facts(installed.get(path)),
    )


def _list_reranker(model: InstalledModel, uses: dict[Path, list[str]], free: int) -> ListedModel:
    problem = ""
    try:
        check_usable(model.kind, model.folder)
    except EngineError as error:
        problem = error.why or error.what
    return ListedModel(
        path=model.path,
        place="own folder",
        names=(model.name,),
        size=model.size,
        architecture=None,
        quantisation=None,
        parameters=None,
        context=None,
        chat_template=None,
        problem=problem,
        memory=model.size,
        fits=None if problem else model.size <= free,
        kind="reranker",
        used_by=tuple(uses.get(real_path(model.path), ())),
        **_facts(model),
    )


def _list_entry(entry: CatalogueModel, free: int, disk: int) -> ListedModel:
    return ListedModel(
        path=None,
        place="catalogue",
        names=(entry.name,),
        size=entry.disk,
        architecture=entry.architecture,
        quantisation=None,
        parameters=entry.parameters,
        context=entry.max_tokens or None,
        chat_template=None,
        problem="",
        memory=entry.memory,
        fits=entry.memory <= free,
        kind=entry.kind,
        name=entry.name,
        here=False,
        purpose=entry.purpose,
        languages=tuple(entry.languages),
        licence=entry.licence,
        dimension=entry.dimension or None,
        room=entry.disk <= disk,
    )


def _free_disk() -> int:
    folder = own_folder()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def find_uses() -> dict[Path, list[str]]:
    """Find which of the known projects name a model: path → names of projects."""
    uses: dict[Path, list[str]] = {}
    for folder in known_projects():
        for path in _named_models(folder):
            names = uses.setdefault(path, [])
            if folder.name not in names:
                names.append(folder.name)
    return uses


def _named_models(folder: Path) -> Iterator[Path]:
    """Yield the models of this machine that a project's settings name, as far as they can be
    read.
    """
    from engine.encoders.kinds.chosen import model_path
    from engine.gguf.file import gguf_file
    from engine.models.installed import find_installed_folder

    try:
        settings = ProjectFolder.open(folder).settings()
    except (EngineError, OSError):
        return
    if settings.encoder.endpoint:
        encoders = []
    else:
        encoders = [settings.encoder.model]
    for named in filter(None, [*encoders, settings.encoder.small_model]):
        with suppress(EngineError, OSError, ValueError):
            yield real_path(model_path(named))
    if settings.queries.model:
        with suppress(EngineError, OSError, ValueError):
            yield real_path(gguf_file(folder, settings.queries.model))
    for named in filter(None, [settings.search.reranker, settings.training.cross_encoder]):
        with suppress(OSError, ValueError, RuntimeError):
            path = folder / Path(named).expanduser()
            yield real_path(path if path.exists() else find_installed_folder(named) or path)


def check_usable(kind: Kind, folder: Path) -> None:
    """Raise ModelError unless a folder holds a model of that kind that can be loaded."""
    from engine.encoders.model_folder import resolve_model
    from engine.reranking.folder import resolve_cross_encoder

    if kind == "encoder":
        resolve_model(str(folder))
    elif kind == "reranker":
        resolve_cross_encoder(folder, folder)
    else:
        for file in sorted(folder.glob("*.gguf"))[:1]:
            wrong = not_a_writer(file, read_header(file))
            if wrong is not None:
                raise wrong


def get_model(
    name: str,
    to: Path | None = None,
    progress: Progress = lambda done, total: None,
    should_stop: Stop = _go_on,
) -> ModelChange:
    """Fetch a model of the catalogue, and install it; with `to`, write it there as a pack
    instead.

    A pack of a model that is here is made of that. Raises as `fetch_model` and `install`,
    ModelError for a model that cannot be loaded.
    """
    entry = get_catalogue_model(name)
    if to is not None:
        return _write_pack(entry, to, progress, should_stop)
    check_target(entry.name)
    with _fetched(entry, progress, should_stop) as (folder, model):
        return _change(model, install(folder, model))


def _write_pack(
    entry: CatalogueModel, to: Path, progress: Progress, should_stop: Stop
) -> ModelChange:
    target = check_pack_target(to, entry.name)
    installed = read_installed(entry.name)
    if installed and installed.repository == entry.repository:
        verify(installed, should_stop)
        return _change(installed, write_pack(installed.folder, installed, target, should_stop))
    with _fetched(entry, progress, should_stop) as (folder, model):
        return _change(model, write_pack(folder, model, target, should_stop))


@contextmanager
def _fetched(
    entry: CatalogueModel, progress: Progress, should_stop: Stop
) -> Iterator[tuple[Path, InstalledModel]]:
    """Yield the folder of a model that was fetched and can be loaded; it is gone afterwards."""
    folder, model = fetch_model(entry, progress, should_stop)
    try:
        check_usable(model.kind, folder)
        yield folder, model
    finally:
        discard(folder)


def check_pack_target(folder: Path, name: str) -> Path:
    """Return the pack to be written in a folder.

    Raises UsageError where it exists, InputError for no folder.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder}.",
            "",
            "Make it first, or name another.",
            code="path-missing",
        )
    target = folder / f"{name}{SUFFIX}"
    if target.exists():
        raise UsageError(
            f"{target} already exists.",
            "Nothing was overwritten.",
            "Remove it, or choose another folder.",
            code="target-exists",
        )
    return target


def add(
    source: Path, *, link: bool = False, name: str = "", should_stop: Stop = _go_on
) -> ModelChange:
    """Copy a pack, a folder or a GGUF file into the folder of models; `link` links to a GGUF
    file instead.

    Raises ModelError where it cannot be used or is unsafe, UsageError where its name is taken.
    """
    source = source.expanduser().absolute()
    if source.is_dir():
        return _add_folder(source, name, should_stop)
    if source.is_file() and is_pack(source):
        return _add_pack(source, name, should_stop)
    path = add_model(source, link=link, name=name, should_stop=should_stop)
    return ModelChange(path.name, "language model", path, "", 1, path.stat().st_size)


def _add_pack(source: Path, name: str, should_stop: Stop) -> ModelChange:
    from engine.models.packs import read_pack_manifest

    model = read_pack_manifest(source)
    model = _renamed(model, name or model.name)
    check_target(model.name)
    with staged_folder(model.name) as folder:
        unpack(source, folder, should_stop)
        check_usable(model.kind, folder)
        path = install(folder, model)
    return _change(model, path)


def _renamed(model: InstalledModel, name: str) -> InstalledModel:
    return InstalledModel(
        check_model_name(name),
        model.kind,
        model.repository,
        model.revision,
        model.licence,
        model.files,
    )


def _add_folder(source: Path, name: str, should_stop: Stop) -> ModelChange:
    from engine.encoders.model_folder import folder_name

    name = check_model_name(name or folder_name(source))
    check_target(name)
    kind = find_kind(source)
    check_usable(kind, source)
    with staged_folder(name) as folder:
        parts = tuple(_copy_files(source, folder, should_stop))
        check_usable(kind, folder)
        model = InstalledModel(name, kind, "", "", "", parts)
        path = install(folder, model)
    return _change(model, path)


def find_kind(folder: Path) -> Kind:
    """Tell an encoder's folder from a reranker's, by its files."""
    from engine.encoders.model_folder import read_object
    from engine.reranking.folder import is_modular

    config = folder / "config.json"
    if config.is_file():
        architectures = read_object(config).get("architectures")
    else:
        architectures = None
    if isinstance(architectures, list) and architectures:
        first = str(architectures[0])
    else:
        first = ""
    if first.endswith(HEAD) or is_modular(folder):
        return "reranker"
    return "encoder"


def _copy_files(source: Path, target: Path, should_stop: Stop) -> Iterator[ModelPart]:
    """Copy the files that loading may read, links followed; pickles and code stay behind."""
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        hidden = any(part.startswith(".") for part in path.relative_to(source).parts)
        if hidden or not path.is_file() or not is_data(name) or is_pickle(name):
            continue
        copy = target / check_name(name)
        with disk_errors(f"{copy} could not be written."):
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        yield hash_part(copy, name, should_stop)


def _change(model: InstalledModel, path: Path) -> ModelChange:
    return ModelChange(model.name, model.kind, path, model.revision, len(model.files), model.size)


def remove_model(name: str) -> Path:
    """Delete a model from the folder of models.

    Raises UsageError where a project uses it, or it is not there.
    """
    installed = read_installed(name)
    if installed:
        path = installed.path
    else:
        path = own_folder() / name
    projects = find_uses().get(real_path(path), [])
    if projects:
        raise UsageError(
            f"The model {name} was not removed.",
            f"It is used by {', '.join(projects)}.",
            "Choose another model there first.",
            code="model-in-use",
        )
    return remove(name)


def verify_model(name: str, should_stop: Stop = _go_on) -> ModelChange:
    """Check every file of an installed model.

    Raises ModelError for one that differs, UsageError where there is none.
    """
    model = read_installed(name)
    if model is None:
        raise UsageError(
            f"There is no model {name} that could be checked.",
            f"In {own_folder()}, it has no list of digests.",
            "'engine models' lists them. Models that were added before have none; add them again.",
            code="model-missing",
        )
    verify(model, should_stop)
    return _change(model, model.path)
