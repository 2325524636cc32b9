"""The embedding models on this machine, from their files; none is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

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
    named = [Path(folder).expanduser() for folder in folders]
    found = {real_path(path): (path, place, name) for path, place, name in _model_folders(named)}
    files = [_gguf(one) for one in find_models(named)]
    return [*(_folder(*one) for one in found.values()), *(one for one in files if one is not None)]


def resolve_name(named: str, found: Sequence[EncoderFile]) -> str:
    """Return the value of `encoder.model` for an encoder given by its listed name or its path.

    Raises UsageError.
    """
    if Path(named).expanduser().exists():
        return str(Path(named).expanduser().absolute())
    names = {
        name: one.model
        for one in found
        for name in (one.model, *one.names, one.names[0].rpartition("/")[2])
    }
    if named not in names:
        raise unknown_name(
            "encoder", named, [one.names[0] for one in found], code="encoder-unknown"
        )
    return names[named]


def _model_folders(named: Sequence[Path]) -> Iterator[tuple[Path, str, str]]:
    """Yield the model folders as (folder, place, name)."""
    for hub in hugging_face(os.environ, Path.home()):
        for modules in sorted(hub.glob("models--*/snapshots/*/modules.json")):
            yield modules.parent, "Hugging Face", "/".join(modules.parents[2].name.split("--")[1:])
    for model in list_installed():
        if model.kind == "encoder":
            yield model.folder, OWN, model.name
    for folder in named:
        for parent, below, names in os.walk(folder):
            below[:] = (
                sorted(below) if len(Path(parent).relative_to(folder).parts) < MAX_DEPTH else []
            )
            if "modules.json" in names:
                below.clear()
                yield Path(parent), NAMED, Path(parent).name
    yield bundled_folder(), "bundled", DEFAULT_MODEL


def _folder(path: Path, place: str, name: str) -> EncoderFile:
    if place == "bundled":
        model = DEFAULT_MODEL
    else:
        model = str(path)
    languages = tuple(
        sorted(card_languages(path, folder_name(path) if place != "bundled" else name))
    )
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


def _gguf(found: Found) -> EncoderFile | None:
    """Describe a GGUF file; None for language models and files without a readable header.

    `engine models` lists those.
    """
    try:
        header = read_header(found.path)
        size = sum(part.stat().st_size for part in found.parts or (found.path,))
    except (ModelError, OSError):
        return None
    if not header.embeds:
        return None
    if not found.size or size == found.size:
        problem = ""
    else:
        problem = f"It has {size:,} bytes instead of {found.size:,}."
    problem = problem or describe_missing("llm")
    languages = header.languages or tuple(card_languages(None, header.name or found.path.stem))
    return EncoderFile(
        str(found.path),
        found.place,
        found.names,
        "gguf",
        size,
        header.dimension,
        header.context,
        languages,
        problem,
    )
