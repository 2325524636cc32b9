"""The GGUF file of a language model: found, checked by its first bytes, identified by content."""

from __future__ import annotations

import hashlib
import re
import struct
from functools import lru_cache
from pathlib import Path

from engine.core.errors import ModelError, SettingsError
from engine.models.installed import find_installed_folder, models_folder, read_installed

# The end of a part's name, such as -00001-of-00003.gguf.
PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_LFS = b"version https://git-lfs"
# A file is identified by its first HEAD bytes, and by BLOCKS blocks of BLOCK bytes spread over the
# rest.
HEAD = 1 << 20
BLOCK = 1 << 16
BLOCKS = 32


def find_gguf_file(folder: Path, model: str) -> Path:
    """Return the file that queries.model names.

    `model`: a path (a relative one starts at the project's `folder`), or a name in the folder of
    `engine models add`. Raises SettingsError if it is empty, ModelError if the file cannot be one.
    """
    if not model:
        raise SettingsError(
            "The backend gguf needs a language model.",
            "queries.model in project.toml is empty.",
            "Set queries.model to the path of a GGUF file, or queries.backend to extractive.",
            code="language-model-not-chosen",
        )
    try:
        path = (folder / Path(model).expanduser()).absolute()
        if not path.exists() and Path(model).name == model:
            path = _find_added(model) or path
        check_gguf(path)
    except (ValueError, RuntimeError) as error:
        # The path is invalid, or the home folder is unknown.
        raise unusable(model, f"{error}") from None
    return path


def _find_added(model_name: str) -> Path | None:
    """Return the file of a model in the folder of models, by its name there or in the catalogue.

    None if there is no such model.
    """
    installed = find_installed_folder(model_name)
    if installed:
        model = read_installed(installed.name)
        if model and model.kind == "language model":
            return model.path
    added = models_folder() / model_name
    if added.is_file():
        return added
    return None


def check_gguf(path: Path) -> None:
    """Raise ModelError unless the file can be read and begins as a GGUF file does."""
    if path.is_dir():
        raise unusable(path, "It is a folder.")
    try:
        with path.open("rb") as file:
            head = file.read(len(_LFS))
    except FileNotFoundError:
        raise unusable(
            path,
            "There is no such file.",
            code="language-model-missing",
        ) from None
    except OSError as error:
        raise unusable(path, f"{error.strerror or error}.") from None
    if not head:
        raise unusable(path, "The file is empty.")
    if head == _LFS:
        raise unusable(
            path, "It only points to the model in Git LFS: the model itself was not fetched."
        )
    if head[:4] != b"GGUF":
        raise unusable(
            path, "The file is of another kind: it does not begin with the letters GGUF."
        )
    if len(head) < 8:
        raise unusable(path, "The file ends within its first bytes.")
    (version,) = struct.unpack("<I", head[4:8])
    if version & 0xFFFF == 0:  # a small number, of which the other two bytes come first
        raise unusable(path, "It was made for processors of another byte order.")


def parts_of(path: Path) -> tuple[Path, ...]:
    """Return the files of a model; all parts of a split one, whether they exist or not.

    `path` must be the first part of a split model.
    """
    part = PART.search(path.name)
    if part is None or int(part[1]) != 1:
        return (path,)
    stem = path.name[: part.start()]
    numbers = range(1, int(part[2]) + 1)
    return tuple(path.with_name(f"{stem}-{number:05}-of-{part[2]}.gguf") for number in numbers)


def content_identity(path: Path) -> str:
    """Return 16 hex digits that identify a model's content, independent of its place and time.

    They hash the size and samples of the bytes of each file: a model of many gigabytes is not read
    completely, as other weights differ nearly everywhere. Raises ModelError if a file is missing or
    cannot be read.
    """
    identities = []
    for part in parts_of(path):
        try:
            status = part.stat()
            identities.append(_hash_samples(part, status.st_size, status.st_mtime_ns))
        except OSError as error:
            raise unusable(path, f"{part.name}: {error.strerror or error}.") from None
    if len(identities) == 1:
        return identities[0]
    return hashlib.sha256("".join(identities).encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _hash_samples(
    path: Path,
    size: int,
    _modified: int,
) -> str:
    """Return 16 hex digits that identify a file, computed again when it has changed."""
    digest = hashlib.sha256(f"{size}\0".encode())
    last_block = max(0, size - HEAD - BLOCK)  # where it begins, from the end of the head
    with path.open("rb") as file:
        digest.update(file.read(HEAD))
        for number in range(1, BLOCKS + 1):
            file.seek(HEAD + last_block * number // BLOCKS)
            digest.update(file.read(BLOCK))
    return digest.hexdigest()[:16]


def unusable(
    path: Path | str,
    why: str,
    code: str = "language-model-invalid",
) -> ModelError:
    """Return the error that says why a model file cannot be used, and what else could be."""
    return ModelError(
        f"The language model {path} cannot be used.",
        why,
        "Set queries.model to a GGUF file of a language model, or queries.backend to extractive.",
        code=code,
    )
