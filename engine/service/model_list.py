"""All models in one list: those on this machine, what uses them, and those of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.messages.encoders import EncoderFile
from engine.core.messages.models import ListedModel
from engine.core.messages.queries import ModelFile
from engine.encoders.choosing.library import list_encoders
from engine.gguf.library import list_models
from engine.gguf.places import real_path
from engine.models.catalogue import CatalogueModel, read_catalogue
from engine.models.installed import InstalledModel, free_space, list_installed
from engine.project.folder import ProjectFolder, known_projects
from engine.service.model_kinds import check_usable


def list_all_models(context: int, free: int | None = None) -> list[ListedModel]:
    """List the models on this machine, then those of the catalogue that are not here.

    `context`: length in tokens for which the memory of language models is estimated. `free`: bytes
    of free memory; None to measure it.
    """
    if free is None:
        import psutil

        free = int(psutil.virtual_memory().available)
    installed = {real_path(model.path): model for model in list_installed()}
    uses = find_uses()
    listed = [_describe_writer(file, installed, uses) for file in list_models(context, free)]
    writers = {real_path(model.path) for model in listed if model.path}
    for encoder in list_encoders():
        path = _find_encoder_path(encoder)
        if path not in writers:
            listed.append(_describe_encoder(encoder, path, installed, uses, free))
    for model in installed.values():
        if model.kind == "reranker":
            listed.append(_describe_reranker(model, uses, free))
    here = {model.name for model in installed.values()}
    disk = free_space()
    for entry in read_catalogue():
        if entry.name not in here:
            listed.append(_describe_entry(entry, free, disk))
    return listed


def _describe_writer(
    file: ModelFile, installed: dict[Path, InstalledModel], uses: dict[Path, list[str]]
) -> ListedModel:
    """Return a language model with what its file and the folder of models say about it.

    `installed`: models in the folder of models, by path. `uses`: see `find_uses`.
    """
    path = real_path(file.path)
    properties = {field.name: getattr(file, field.name) for field in fields(ModelFile)}
    listed = ListedModel(**properties, used_by=tuple(uses.get(path, ())))
    return _with_origin(listed, installed.get(path))


def _with_origin(listed: ListedModel, model: InstalledModel | None) -> ListedModel:
    """Add name, licence and revision from the folder of models; None: the model is not in it."""
    if model is None:
        return listed
    return replace(
        listed,
        name=model.name,
        licence=model.licence,
        revision=model.revision,
    )


def _find_encoder_path(encoder: EncoderFile) -> Path:
    """Return the real path of an encoder's folder."""
    from engine.encoders.model_folder import BUNDLED_NAMES, bundled_folder

    if encoder.model in BUNDLED_NAMES:
        return real_path(bundled_folder())
    return real_path(Path(encoder.model))


def _describe_encoder(
    encoder: EncoderFile,
    path: Path,
    installed: dict[Path, InstalledModel],
    uses: dict[Path, list[str]],
    free: int,
) -> ListedModel:
    """Return an encoder with what its files and the folder of models say about it.

    `free`: bytes of free memory. Otherwise as `_describe_writer`.
    """
    listed = ListedModel(
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
        memory=encoder.size,
        fits=None if encoder.problem else encoder.size <= free,
        kind="encoder",
        languages=encoder.languages,
        dimension=encoder.dimension,
        used_by=tuple(uses.get(path, ())),
    )
    return _with_origin(listed, installed.get(path))


def _describe_reranker(
    model: InstalledModel, uses: dict[Path, list[str]], free: int
) -> ListedModel:
    """Return an installed reranker, and as its `problem` why it cannot be used, if so.

    `uses`: see `find_uses`. `free`: bytes of free memory.
    """
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
        name=model.name,
        licence=model.licence,
        revision=model.revision,
    )


def _describe_entry(
    entry: CatalogueModel,
    free: int,
    disk: int,
) -> ListedModel:
    """Return a model of the catalogue. `free`, `disk`: free bytes in memory and on the disk."""
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


def find_uses() -> dict[Path, list[str]]:
    """Return the path of each model that a project's settings name → names of these projects."""
    uses: dict[Path, list[str]] = {}
    for folder in known_projects():
        for path in _list_named_models(folder):
            names = uses.setdefault(path, [])
            if folder.name not in names:
                names.append(folder.name)
    return uses


def _list_named_models(folder: Path) -> Iterator[Path]:
    """Yield the paths of the local models that a project's settings name.

    Settings and names that cannot be read are skipped.
    """
    from engine.encoders.kinds.chosen import model_path
    from engine.gguf.file import find_gguf_file
    from engine.models.installed import find_installed_folder

    try:
        settings = ProjectFolder.open(folder).settings()
    except (EngineError, OSError):
        return
    encoders = [settings.encoder.small_model]
    if not settings.encoder.endpoint:  # with a server, the model is not used
        encoders.insert(0, settings.encoder.model)
    for named in filter(None, encoders):
        with suppress(EngineError, OSError, ValueError):
            yield real_path(model_path(named))
    if settings.queries.model:
        with suppress(EngineError, OSError, ValueError):
            yield real_path(find_gguf_file(folder, settings.queries.model))
    for named in filter(None, [settings.search.reranker, settings.training.cross_encoder]):
        with suppress(OSError, ValueError, RuntimeError):
            path = folder / Path(named).expanduser()
            if not path.exists():
                path = find_installed_folder(named) or path
            yield real_path(path)
