"""Where GGUF files of other programs lie: LM Studio, Ollama, the Hugging Face cache, and our own
folder.
"""

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
from engine.models.installed import own_folder

OWN = "own folder"
NAMED = "settings"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class Found:
    """A model file: whose place it lies in, the names it goes by there, and the size that it
    should have (0: not known). `parts`: all files of a model in several.
    """

    path: Path
    place: str
    names: tuple[str, ...]
    size: int = 0
    parts: tuple[Path, ...] = ()


def own_models() -> list[Path]:
    """Files in our own folder by name, each as far as its header goes a language model."""
    from engine.core.errors import ModelError
    from engine.gguf.header import read_header

    found = []
    for one in sorted(_files(own_folder(), OWN), key=lambda one: one.path.name):
        with suppress(ModelError):
            if read_header(one.path).writes:
                found.append(one.path)
    return found


def find_models(folders: Iterable[Path] = ()) -> list[Found]:
    """Model files in the usual places, and in `folders` that settings name, each once.

    What cannot be read is passed over.
    """
    home = Path.home()
    found: dict[Path, Found] = {}
    for one in chain(_everywhere(os.environ, home), *(_files(folder, NAMED) for folder in folders)):
        real = real_path(one.path)
        if real in found:
            former = found[real]
            names = tuple(dict.fromkeys(former.names + one.names))
            found[real] = replace(former, names=names, size=former.size or one.size)
        else:
            found[real] = one
    return list(found.values())


def _everywhere(environment: Mapping[str, str], home: Path) -> Iterator[Found]:
    yield from _files(own_folder(), OWN)
    for folder in (home / ".lmstudio", home / ".cache" / "lm-studio", lm_studio(home)):
        yield from _files(folder / "models", "LM Studio")
    for folder in _ollama(environment, home):
        yield from _manifests(folder)
    for folder in hugging_face(environment, home):
        yield from _cached(folder)


def real_path(path: Path) -> Path:
    """Where links lead to; the path itself where they lead nowhere."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a link to itself
        return path


def lm_studio(home: Path) -> Path:
    """LM Studio's folder, also where the user has moved it."""
    with suppress(OSError, ValueError):
        return Path((home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip())
    return home / ".lmstudio"


def _ollama(environment: Mapping[str, str], home: Path) -> list[Path]:
    named = environment.get("OLLAMA_MODELS")
    system = [Path("/usr/share/ollama/.ollama/models"), Path("/var/lib/ollama/models")]
    return [*([Path(named)] if named else []), home / ".ollama" / "models", *system]


def hugging_face(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Folders of the Hugging Face cache that hold repositories."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return [Path(environment[variable])]
    if environment.get("HF_HOME"):
        return [Path(environment["HF_HOME"]) / "hub"]
    return [Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface" / "hub"]


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        shown = (
            name for name in sorted(names) if not name.startswith(".")
        )  # the others are not yet whole
        yield from (Path(parent, name) for name in shown if name.lower().endswith(".gguf"))


def _files(folder: Path, place: str) -> Iterator[Found]:
    for path in _walk(folder):
        part = PART.search(path.name)
        if part is None:
            yield Found(path, place, (path.name,))
        elif int(part[1]) == 1:
            yield Found(path, place, (path.name,), parts=parts_of(path))


def _cached(hub: Path) -> Iterator[Found]:
    """Files of snapshots."""
    for repository in sorted(hub.glob("models--*")):
        for one in _files(repository / "snapshots", "Hugging Face"):
            yield replace(one, names=("/".join([*repository.name.split("--")[1:], one.path.name]),))


def _manifests(folder: Path) -> Iterator[Found]:
    """Models by their manifests; their files are named by their sha256."""
    root = folder / "manifests"
    for parent, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            manifest = Path(parent, name)
            for digest, size in _layers(manifest):
                steps = manifest.relative_to(root).parts
                called = "/".join(steps[2 if steps[1:2] == ("library",) else 1 : -1]) + f":{name}"
                yield Found(folder / "blobs" / f"sha256-{digest}", "Ollama", (called,), size)


def _layers(manifest: Path) -> list[tuple[str, int]]:
    """(sha256, bytes) of the models in an Ollama manifest; none of what cannot be read."""
    try:
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        found = [
            (str(one["digest"]), int(one.get("size", 0)))
            for one in layers
            if one["mediaType"] == _OLLAMA_MODEL
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    named = [(digest.removeprefix("sha256:"), size) for digest, size in found]
    return [(digest, size) for digest, size in named if _DIGEST.fullmatch(digest)]
