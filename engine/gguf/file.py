"""The GGUF file of a language model: found, checked as far as its first bytes go, and named by
its content.
"""

from __future__ import annotations

import hashlib
import re
import struct
from functools import lru_cache
from pathlib import Path

from engine.core.errors import ModelError, SettingsError
from engine.models.installed import find_installed_folder, own_folder, read_installed

PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_LFS = b"version https://git-lfs"
HEAD = 1 << 20  # bytes that name a file: its head, and blocks spread over the rest
BLOCK = 1 << 16
BLOCKS = 32


def gguf_file(folder: Path, named: str) -> Path:
    """The file that queries.model names, by its path (a relative one lies in the project's
    `folder`), or by its name in the folder of `engine models add`.

    Raises SettingsError where none is named, ModelError where it cannot be one.
    """
    if not named:
        raise SettingsError(
            "The backend gguf needs a language model.",
            "queries.model in project.toml is empty.",
            "Set queries.model to the path of a GGUF file, or queries.backend to extractive.",
            code="language-model-not-chosen",
        )
    try:
        path = (folder / Path(named).expanduser()).absolute()
        if not path.exists() and Path(named).name == named:
            path = _find_added(named) or path
        check_gguf(path)
    except (
        ValueError,
        RuntimeError,
    ) as error:  # a path that no file can have, or a home that is not known
        raise unusable(named, f"{error}") from None
    return path


def _find_added(named: str) -> Path | None:
    """The file of a model in the folder of models, by its own name or that of the catalogue."""
    installed = find_installed_folder(named)
    if installed:
        model = read_installed(installed.name)
    else:
        model = None
    if model and model.kind == "language model":
        return model.path
    added = own_folder() / named
    return added if added.is_file() else None


def check_gguf(path: Path) -> None:
    """Raises ModelError unless the file is there, can be read and begins as a GGUF file does."""
    if path.is_dir():
        raise unusable(path, "It is a folder.")
    try:
        with path.open("rb") as file:
            head = file.read(len(_LFS))
    except FileNotFoundError:
        raise unusable(path, "There is no such file.", code="language-model-missing") from None
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
    version = struct.unpack("<I", head[4:8])[0]
    if version & 0xFFFF == 0:
        raise unusable(path, "It was made for processors of another byte order.")


def parts_of(path: Path) -> tuple[Path, ...]:
    """The files of a model: of one in several, all of them where `path` is the first, whether
    they are there or not.
    """
    part = PART.search(path.name)
    if part is None or int(part[1]) != 1:
        return (path,)
    stem = path.name[: part.start()]
    return tuple(
        path.with_name(f"{stem}-{number:05}-of-{part[2]}.gguf")
        for number in range(1, int(part[2]) + 1)
    )


def content_identity(path: Path) -> str:
    """16 hex digits that stand for the content of a model, not its place or time: of the size
    and samples of the bytes of each of its files. ModelError where one of them is missing or
    cannot be read.

    A model of many gigabytes is not read whole: other weights differ nearly everywhere.
    """
    found = []
    for part in parts_of(path):
        try:
            state = part.stat()
            found.append(_identity(part, state.st_size, state.st_mtime_ns))
        except OSError as error:
            raise unusable(path, f"{part.name}: {error.strerror or error}.") from None
    if len(found) == 1:
        return found[0]
    return hashlib.sha256("".join(found).encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _identity(path: Path, size: int, _modified: int) -> str:
    digest = hashlib.sha256(f"{size}\0".encode())
    with path.open("rb") as file:
        digest.update(file.read(HEAD))
        for number in range(BLOCKS):
            file.seek(HEAD + max(0, size - HEAD - BLOCK) * (number + 1) // BLOCKS)
            digest.update(file.read(BLOCK))
    return digest.hexdigest()[:16]


def unusable(path: Path | str, why: str, code: str = "language-model-invalid") -> ModelError:
    """The error that says why a model file cannot be used, and what else could be."""
    return ModelError(
        f"The language model {path} cannot be used.",
        why,
        "Set queries.model to a GGUF file of a language model, or queries.backend to extractive.",
        code=code,
    )
