"""The embedding models on this machine, from their files; none is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.core.disk import expand_home
from engine.core.errors import ModelError, unknown_name
from engine.core.extras import describe_missing
from engine.core.messages.encoders import EncoderFile
from engine.encoders.choosing.languages import card_languages
from engine.encoders.model_folder import DEFAULT_MODEL, bundled_folder, folder_facts, folder_name
from engine.gguf.header import read_header
from engine.gguf.places import NAMED, OWN, Found, find_models, hugging_face, real_path
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
    locations = {real_path(path): (path, place, name) for path, place, name in _find_folders(roots)}
    encoders = [_describe_folder(*location) for location in locations.values()]
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
        short_name = encoder.names[0].rpartition("/")[2]
        models |= dict.fromkeys((encoder.model, *encoder.names, short_name), encoder.model)
    if name not in models:
        first_names = [encoder.names[0] for encoder in encoders]
        raise unknown_name("encoder", name, first_names, code="encoder-unknown")
    return models[name]


def _find_folders(roots: Sequence[Path]) -> Iterator[tuple[Path, str, str]]:
    """Yield the model folders as (folder, place, name)."""
    for hub in hugging_face(os.environ, Path.home()):
        for modules in sorted(hub.glob("models--*/snapshots/*/modules.json")):
            yield modules.parent, "Hugging Face", "/".join(modules.parents[2].name.split("--")[1:])
    for model in list_installed():
        if model.kind == "encoder":
            yield model.folder, OWN, model.name
    for root in roots:
        for parent, folders, files in os.walk(root):
            path = Path(parent)
            folders.sort()
            if len(path.relative_to(root).parts) >= MAX_DEPTH:
                folders.clear()
            if "modules.json" in files:
                folders.clear()
                yield path, NAMED, path.name
    yield bundled_folder(), "bundled", DEFAULT_MODEL


def _describe_folder(path: Path, place: str, name: str) -> EncoderFile:
    if place == "bundled":
        model = DEFAULT_MODEL
        languages = tuple(sorted(card_languages(path, name)))
    else:
        model = str(path)
        languages = tuple(sorted(card_languages(path, folder_name(path))))
    try:
        return EncoderFile(model, place, (name,), "folder", *folder_facts(path), languages)
    except ModelError as error:
        return EncoderFile(
            model,
            place,
            (name,),
            "folder",
            languages=languages,
            problem=f"{error.what} {error.why}",
        )


def _describe_gguf(file: Found) -> EncoderFile | None:
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
