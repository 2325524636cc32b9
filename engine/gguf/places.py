"""Where GGUF files lie: LM Studio, Ollama, the Hugging Face cache, and our own folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from engine.gguf.file import PART, parts_of
from engine.models.installed import models_folder

OWN = "own folder"
"""The place of models that `engine models` has put there."""
NAMED = "settings"
"""The place of models in folders that settings name."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model file."""

    path: Path
    """The file; of a split model, its first part."""
    place: str
    """The program in whose folder the file lies, such as `Ollama`."""
    names: tuple[str, ...]
    """Its names there, such as `llama3.2:3b`."""
    size: int = 0
    """Bytes that it should have; 0 if unknown."""
    parts: tuple[Path, ...] = ()
    """All files of a split model; empty for others."""


def own_models() -> list[Path]:
    """Return the language models in our own folder, by name, judged by their headers."""
    from engine.core.errors import ModelError
    from engine.gguf.header import read_header

    paths = []
    for model in sorted(_find_files(models_folder(), OWN), key=lambda model: model.path.name):
        with suppress(ModelError):
            if read_header(model.path).writes:
                paths.append(model.path)
    return paths


def find_models(folders: Iterable[Path] = ()) -> list[FoundModel]:
    """Return model files in the usual places, and in `folders` that settings name, each once.

    Unreadable files are skipped.
    """
    home = Path.home()
    models: dict[Path, FoundModel] = {}
    in_folders = [_find_files(folder, NAMED) for folder in folders]
    for model in chain(_search_usual_places(os.environ, home), *in_folders):
        real = real_path(model.path)
        if real in models:
            former = models[real]
            names = tuple(dict.fromkeys(former.names + model.names))
            models[real] = replace(
                former,
                names=names,
                size=former.size or model.size,
            )
        else:
            models[real] = model
    return list(models.values())


def _search_usual_places(environment: Mapping[str, str], home: Path) -> Iterator[FoundModel]:
    """Yield the models of our own folder, LM Studio, Ollama and the Hugging Face cache."""
    yield from _find_files(models_folder(), OWN)
    for folder in (home / ".lmstudio", home / ".cache" / "lm-studio", lm_studio(home)):
        yield from _find_files(folder / "models", "LM Studio")
    for folder in _list_ollama_folders(environment, home):
        yield from _search_manifests(folder)
    for folder in hugging_face(environment, home):
        yield from _search_hub(folder)


def real_path(path: Path) -> Path:
    """Return the path with all links resolved; the path itself if a link leads to itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        # It is a link to itself.
        return path


def lm_studio(home: Path) -> Path:
    """Return LM Studio's folder, also if the user has moved it."""
    with suppress(OSError, ValueError):
        return Path((home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip())
    return home / ".lmstudio"


def _list_ollama_folders(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the folders where Ollama may keep models; that of OLLAMA_MODELS comes first."""
    folders = [
        home / ".ollama" / "models",
        Path("/usr/share/ollama/.ollama/models"),
        Path("/var/lib/ollama/models"),
    ]
    configured = environment.get("OLLAMA_MODELS")
    if configured:
        folders.insert(0, Path(configured))
    return folders


def hugging_face(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the folders of the Hugging Face cache that contain repositories."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return [Path(environment[variable])]
    if environment.get("HF_HOME"):
        return [Path(environment["HF_HOME"]) / "hub"]
    return [Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface" / "hub"]


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the GGUF files below a folder, without hidden ones, which are still being written."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(".gguf") and not name.startswith("."):
                yield Path(parent, name)


def _find_files(folder: Path, place: str) -> Iterator[FoundModel]:
    """Yield the models below a folder; a split one by its first part."""
    for path in _walk(folder):
        part = PART.search(path.name)
        if part is None:
            yield FoundModel(
                path,
                place,
                (path.name,),
            )
        elif int(part[1]) == 1:
            yield FoundModel(
                path,
                place,
                (path.name,),
                parts=parts_of(path),
            )


def _search_hub(hub: Path) -> Iterator[FoundModel]:
    """Yield the models of a Hugging Face cache, by names such as OWNER/REPOSITORY/FILE."""
    for repository in sorted(hub.glob("models--*")):
        owner_and_name = repository.name.split("--")[1:]
        for model in _find_files(repository / "snapshots", "Hugging Face"):
            name = "/".join([*owner_and_name, model.path.name])
            yield replace(model, names=(name,))


def _search_manifests(folder: Path) -> Iterator[FoundModel]:
    """Yield Ollama's models by their manifests; their files are named by their sha256."""
    root = folder / "manifests"
    for parent, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            manifest = Path(parent, name)
            # REGISTRY/library/MODEL/TAG, or REGISTRY/OWNER/MODEL/TAG.
            steps = manifest.relative_to(root).parts
            model_name = f"{'/'.join(steps[1:-1]).removeprefix('library/')}:{name}"
            for digest, size in _read_layers(manifest):
                path = folder / "blobs" / f"sha256-{digest}"
                yield FoundModel(
                    path,
                    "Ollama",
                    (model_name,),
                    size,
                )


def _read_layers(manifest: Path) -> list[tuple[str, int]]:
    """Return (sha256, bytes) of the models in an Ollama manifest; none if it cannot be read."""
    try:
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        models = [layer for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
        digests = [
            (str(model["digest"]).removeprefix("sha256:"), int(model.get("size", 0)))
            for model in models
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [(digest, size) for digest, size in digests if _DIGEST.fullmatch(digest)]
