"""Which files of a model are taken, and how each is checked.

No file may contain code that could run, and no path may leave the folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from engine.core.disk import file_sha256
from engine.core.errors import CancelledError, ModelError
from engine.core.platforms.names import is_reserved

BLOCK = 1 << 20  # bytes that are read at a time
MAX_FILES = 200  # of a model
MAX_LISTED = 10_000  # files of a repository
MAX_NAME = 200  # characters of a path
SUFFIXES = frozenset({".safetensors", ".gguf", ".json", ".txt", ".jinja"})
"""Extensions of files that are data: weights without code, configuration, tokenizers."""
# README.md, LICENSE, LICENCE.txt, NOTICE.
_PAPERS = re.compile(r"(README\.md|LICEN[CS]E(\.md|\.txt)?|NOTICE(\.md|\.txt)?)", re.IGNORECASE)
_PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".h5", ".msgpack", ".npy"})
_MODULE = re.compile(r"\d{1,2}_[A-Za-z]{1,40}")  # the folder of a module, such as 1_Pooling
_DAMAGED = "Nothing was kept. Try again; if it happens again, get the model from another place."


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A file of a model."""

    path: str
    """Path within the model's folder, with slashes."""
    size: int
    """Bytes."""
    sha256: str = ""
    """In hex; empty if not known."""
    blob_id: str = ""
    """Git's id of the file, a sha1 in hex; empty if not known."""


def check_name(path: str) -> str:
    """Return a path within a model's folder after checking it.

    Raises ModelError if it could lead elsewhere.
    """
    steps = PurePosixPath(path).parts
    is_unsafe = (
        not path
        or len(path) > MAX_NAME
        or "\\" in path
        or any(ord(char) < 32 for char in path)
        or path != "/".join(steps)  # it has empty steps, or ends with a slash
        or any(step in ("..", ".", "/") for step in steps)
        or PureWindowsPath(path).drive
        or any(map(is_reserved, steps))
    )
    if is_unsafe:
        raise ModelError(
            "The model was not taken: one of its files has an unsafe name.",
            f"{path[:MAX_NAME]!r} could be written outside the folder of the model.",
            "Do not use this copy of the model.",
            code="model-files-unsafe",
        )
    return path


def is_data(path: str) -> bool:
    """Return whether a file's name is that of weights, configuration, a tokenizer or a licence."""
    name = PurePosixPath(path)
    return name.suffix.lower() in SUFFIXES or bool(_PAPERS.fullmatch(name.name))


def is_pickle(path: str) -> bool:
    """Return whether a file's name is that of weights that can run code when they are opened."""
    return PurePosixPath(path).suffix.lower() in _PICKLES


def choose_parts(parts: Sequence[ModelPart], globs: Sequence[str] = ()) -> list[ModelPart]:
    """Return the files of a repository that loading needs, or only those matching `globs`.

    Raises ModelError if a name is unsafe, weights are missing, or all are pickled.
    """
    if len(parts) > MAX_LISTED:
        raise _incomplete_error("It lists too many files.")
    for part in parts:
        check_name(part.path)
    data_parts = [part for part in parts if is_data(part.path)]
    if globs:
        chosen = [part for part in data_parts if _matches(part.path, globs)]
        if not chosen:
            raise _incomplete_error(f"It has no file {' or '.join(globs)}.")
        return chosen
    chosen = [part for part in data_parts if _is_loaded(part.path)]
    check_weights([part.path for part in parts], [part.path for part in chosen])
    if len(chosen) > MAX_FILES:
        raise _incomplete_error(f"It has {len(chosen)} files.")
    return chosen


def check_weights(names: Iterable[str], chosen: Iterable[str]) -> None:
    """Raise ModelError unless safetensors or GGUF files are among the `chosen` of all `names`."""
    if any(name.lower().endswith((".safetensors", ".gguf")) for name in chosen):
        return
    pickled = sorted(name for name in names if is_pickle(name))
    if pickled:
        raise ModelError(
            f"The model was not taken: its weights are only in {pickled[0]}.",
            "Such pickle files can run any code when they are opened.",
            "Choose a model with safetensors or GGUF files.",
            code="model-pickled",
        )
    raise _incomplete_error("It has no weights as safetensors or GGUF.")


def _matches(path: str, globs: Sequence[str]) -> bool:
    """Return whether a path matches one of the globs, ignoring case."""
    return any(fnmatchcase(path.lower(), glob.lower()) for glob in globs)


def _is_loaded(path: str) -> bool:
    """Return whether sentence-transformers reads a file: at the top or in a module's folder."""
    folders = PurePosixPath(path).parts[:-1]
    if len(folders) == 1:
        return _MODULE.fullmatch(folders[0]) is not None
    return not folders


def _incomplete_error(why: str) -> ModelError:
    return ModelError(
        "The model was not taken.",
        why,
        "Choose another one: 'engine models'.",
        code="model-incomplete",
    )


def hash_blob(path: Path, should_stop: Callable[[], bool] = lambda: False) -> str:
    """Return git's id of a file: sha1 of a header and its content."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        for block in read_blocks(file, should_stop):
            digest.update(block)
    return digest.hexdigest()


def read_blocks(file: IO[bytes], should_stop: Callable[[], bool]) -> Iterator[bytes]:
    """Yield a file in blocks. Raises CancelledError once the user has asked to stop."""
    while block := file.read(BLOCK):
        check_stop(should_stop)
        yield block


def check_part(
    path: Path, part: ModelPart, should_stop: Callable[[], bool] = lambda: False
) -> ModelPart:
    """Compare a file with what is known of it and return the part with its sha256.

    Raises ModelError if size or digest differ, or no digest is known.
    """
    size = path.stat().st_size
    if size != part.size:
        raise altered_error(part.path, f"It has {size:,} bytes instead of {part.size:,}.")
    check_stop(should_stop)
    sha256 = file_sha256(path)
    if part.sha256:
        is_same = sha256 == part.sha256
    elif part.blob_id:
        is_same = hash_blob(path, should_stop) == part.blob_id
    else:
        raise altered_error(part.path, "No digest of it is known, so it cannot be checked.")
    if not is_same:
        raise altered_error(part.path, "Its digest is not the one that it should have.")
    return ModelPart(
        part.path,
        size,
        sha256,
        part.blob_id,
    )


def hash_part(
    path: Path,
    name: str,
    should_stop: Callable[[], bool] = lambda: False,
) -> ModelPart:
    """Return the part called `name`, with both digests of the file at `path`."""
    check_stop(should_stop)
    return ModelPart(
        name,
        path.stat().st_size,
        file_sha256(path),
        hash_blob(path, should_stop),
    )


def altered_error(name: str, why: str) -> ModelError:
    """Build the error for a file that differs from what was expected."""
    return ModelError(
        f"The file {name} of the model is damaged or was altered.",
        why,
        _DAMAGED,
        code="model-altered",
    )


def check_stop(should_stop: Callable[[], bool]) -> None:
    """Raise CancelledError if the user asked to stop."""
    if should_stop():
        raise CancelledError("Cancelled.", to_do="Nothing was changed.")
