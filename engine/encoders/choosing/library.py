"""The embedding models on this machine, from their files; none is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from engine.core.disk import expand_home
from engine.core.errors import ModelError, unknown_name
from engine.core.extras import describe_missing
from engine.core.messages.encoders import EncoderFile
from engine.encoders.choosing.languages import card_languages
from engine.encoders.model_folder import DEFAULT_MODEL, bundled_folder, folder_facts, folder_name
from engine.gguf.header import read_header
from engine.gguf.places import NAMED, OWN, FoundModel, find_models, hugging_face, real_path
from engine.models.installed import list_installed

# Depth of sub-folders searched below a folder that settings name.
MAX_DEPTH = 4


def list_encoders(folders: Sequence[str] = ()) -> list[EncoderFile]:
    """List the embedding models on this machine.

    They are the bundled model, sentence-transformers folders in the Hugging Face cache and in
    `folders`, and the GGUF files of embedding models that `find_models` finds. Models that cannot
    be used have a `problem`.
    """
    roots = [expand_home(folder) for folder in folders]
    # A folder that is found twice, perhaps by a link, is listed once.
    locations = {real_path(location.folder): location for location in _find_folders(roots)}
    encoders = [_describe_folder(location) for location in locations.values()]
    for file in find_models(roots):
        encoder = _describe_gguf(file)
        if encoder is not None:
            encoders.append(encoder)
    return encoders


def resolve_name(name: str, encoders: Sequence[EncoderFile]) -> str:
    """Return the value of `encoder.model` for an encoder given by its listed name or its path.

    Raises UsageError.
    """
    path = expand_home(name)
    if path.exists():
        return str(path.absolute())
    models: dict[str, str] = {}
    for encoder in encoders:
        short_name = encoder.names[0].rpartition("/")[2]  # without the organisation
        for known_name in (encoder.model, *encoder.names, short_name):
            models[known_name] = encoder.model
    if name not in models:
        first_names = [encoder.names[0] for encoder in encoders]
        raise unknown_name(
            "encoder",
            name,
            first_names,
            code="encoder-unknown",
        )
    return models[name]


class _Location(NamedTuple):
    """A model's folder, the place where it was found (such as Hugging Face), and its name there."""

    folder: Path
    place: str
    name: str


def _find_folders(roots: Sequence[Path]) -> Iterator[_Location]:
    """Yield the model folders on this machine."""
    for hub in hugging_face(os.environ, Path.home()):
        # Such as models--ORGANISATION--NAME/snapshots/REVISION/modules.json.
        for modules in sorted(hub.glob("models--*/snapshots/*/modules.json")):
            repository = modules.parents[2].name.removeprefix("models--").replace("--", "/")
            yield _Location(
                modules.parent,
                "Hugging Face",
                repository,
            )
    for model in list_installed():
        if model.kind == "encoder":
            yield _Location(
                model.folder,
                OWN,
                model.name,
            )
    for root in roots:
        for parent, folders, files in os.walk(root):
            path = Path(parent)
            folders.sort()
            if len(path.relative_to(root).parts) >= MAX_DEPTH:
                folders.clear()
            if "modules.json" in files:
                folders.clear()
                yield _Location(
                    path,
                    NAMED,
                    path.name,
                )
    yield _Location(
        bundled_folder(),
        "bundled",
        DEFAULT_MODEL,
    )


def _describe_folder(location: _Location) -> EncoderFile:
    """Describe a model's folder by its configuration; one that cannot be used has a `problem`."""
    path, place, name = location
    if place == "bundled":
        model = DEFAULT_MODEL
        languages = card_languages(path, name)
    else:
        model = str(path)
        languages = card_languages(path, folder_name(path))
    listed = EncoderFile(
        model,
        place,
        (name,),
        "folder",
        languages=tuple(sorted(languages)),
    )
    try:
        facts = folder_facts(path)
    except ModelError as error:
        return replace(listed, problem=f"{error.what} {error.why}")
    return replace(
        listed, size=facts.weights_size, dimension=facts.dimension, max_tokens=facts.max_tokens
    )


def _describe_gguf(file: FoundModel) -> EncoderFile | None:
    """Describe a GGUF file; None for language models and files without a readable header.

    `engine models` lists those.
    """
    try:
        header = read_header(file.path)
        size = sum(part.stat().st_size for part in file.parts or (file.path,))
    except (ModelError, OSError):
        return None
    if not header.embeds:
        return None
    problem = describe_missing("llm")
    if file.size and size != file.size:
        problem = f"It has {size:,} bytes instead of {file.size:,}."
    languages = header.languages or tuple(card_languages(None, header.name or file.path.stem))
    return EncoderFile(
        str(file.path),
        file.place,
        file.names,
        "gguf",
        size,
        header.dimension,
        header.context,
        languages,
        problem,
    )
