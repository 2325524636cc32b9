"""The language models on this machine: what each is, whether it fits, whether it is whole; and
adding one to our folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.core.disk import check_room, disk_errors, replaced, sync
from engine.core.errors import CancelledError, InputError, ModelError, UsageError
from engine.core.extras import lack
from engine.core.messages.queries import ModelFile
from engine.core.subprocesses import run_in_subprocess
from engine.gguf.file import PART
from engine.gguf.hardware import Weight
from engine.gguf.header import Header, not_a_writer, read_header
from engine.gguf.places import Found, find_models
from engine.models.installed import own_folder

BLOCK = 1 << 20
CHECK = "engine.gguf.llama"
WORKSPACE = 300_000_000  # bytes of llama.cpp's buffers beside the weights and the cache
_FROM_HEADER = ("architecture", "quantisation", "parameters", "context", "chat_template")


def list_models(context: int, free: int | None = None) -> list[ModelFile]:
    """All models in the usual places.

    `context`: tokens to keep room for. `free`: bytes of free memory, else measured.
    """
    if free is None:
        import psutil

        free = int(psutil.virtual_memory().available)
    return [_model(found, context, free) for found in find_models()]


def _model(found: Found, context: int, free: int) -> ModelFile:
    size = 0
    header = None
    problem = ""
    try:
        size = sum(part.stat().st_size for part in found.parts or (found.path,))
        if found.size and size != found.size:
            problem = (
                f"It has {size:,} bytes instead of {found.size:,}: a download may have broken off."
            )
        header = read_header(found.path)
        wrong = not_a_writer(found.path, header)
        problem = problem or (wrong.why if wrong else "") or lack("llm")
    except ModelError as error:
        problem = problem or error.why
    except OSError as error:
        problem = (
            problem or f"{Path(error.filename or found.path).name}: {error.strerror or error}."
        )
    if header and not problem:
        memory = WORKSPACE + Weight.of(size, header, context).memory
    else:
        memory = 0
    fits = memory <= free if memory else None
    described = {name: getattr(header, name, None) for name in _FROM_HEADER}
    return ModelFile(
        found.path,
        found.place,
        found.names,
        size,
        **described,
        problem=problem,
        memory=memory,
        fits=fits,
    )


def _sha256(path: Path, should_stop: Callable[[], bool]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            _check(should_stop)
            digest.update(block)
    return digest.hexdigest()


def add_model(
    source: Path,
    *,
    link: bool = False,
    name: str = "",
    should_stop: Callable[[], bool] = lambda: False,
) -> Path:
    """Put a copy of a model file, or a symbolic link to it, into our own folder.

    Returns its place there.

    The file appears under its name when it is whole. Raises ModelError with the reason where it is
    no usable language model, UsageError where another file has its name, ResourceError on a full
    disk, CancelledError.
    """
    source = source.expanduser().absolute()
    try:
        header = _checked(source, should_stop)
    except ModelError as error:
        error.to_do = (
            "Name another GGUF file of a language model, or get this one again. Nothing was added."
        )
        raise
    target = own_folder() / _file_name(name or source.name, header)
    with disk_errors(f"{target} could not be written."):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.lexists(target):
            _refuse_another(target, source, should_stop)
            return target
        if link:
            target.symlink_to(source)
            sync(target.parent)
        else:
            _copy(source, target, should_stop)
    return target


def _checked(source: Path, should_stop: Callable[[], bool]) -> Header:
    """The header of a language model that can be used. Raises as `add_model`."""
    if PART.search(source.name):
        raise UsageError(
            f"{source.name} is one part of a model.",
            "A part alone cannot be loaded.",
            "Set queries.model to the path of the first part, or join the parts with"
            " llama-gguf-split --merge.",
            code="language-model-part",
        )
    header = read_header(source)
    if (wrong := not_a_writer(source, header)) is not None:
        raise wrong
    run_in_subprocess(CHECK, [str(source)], f"llama.cpp, reading {source.name},", should_stop)
    if (expected := _expected(source)) and _sha256(source, should_stop) != expected:
        raise ModelError(
            f"The language model {source} cannot be used.",
            "Its sha256 is not the one in its name: it was changed or damaged.",
            code="language-model-damaged",
        )
    return header


def _expected(source: Path) -> str:
    """The sha256 in the names of blobs."""
    name = source.resolve().name.removeprefix("sha256-")
    if len(name) == 64 and set(name) <= set("0123456789abcdef"):
        return name
    return ""


def _file_name(name: str, header: Header) -> str:
    """A blob is named after what its header says."""
    if name.lower().endswith(".gguf"):
        return Path(name).name
    if name.startswith("sha256-"):
        words = f"{header.name or header.architecture}-{header.quantisation}"
    else:
        words = name
    kept = "".join(char if char.isalnum() or char in "._-" else "-" for char in words).strip(".-")
    return f"{kept or 'model'}.gguf"


def _refuse_another(target: Path, source: Path, should_stop: Callable[[], bool]) -> None:
    with suppress(OSError):
        same = target.samefile(source) or (
            target.stat().st_size == source.stat().st_size
            and _sha256(target, should_stop) == _sha256(source, should_stop)
        )
        if same:
            return
    raise UsageError(
        f"{target} already exists.",
        "It is a different file.",
        "Remove it, or give this one another name with --name.",
        code="target-exists",
    )


def _copy(source: Path, target: Path, should_stop: Callable[[], bool]) -> None:
    """Nothing is left of a copy that does not come to its end, not even of one that was killed,
    once it is done again.
    """
    size = source.stat().st_size
    temporary = target.with_name(f".tmp-{target.name}")
    temporary.unlink(missing_ok=True)
    check_room(target.parent, size, "use --link")
    with source.open("rb") as old, replaced(target, temporary) as new:
        while block := old.read(BLOCK):
            _check(should_stop)
            new.write(block)
        if new.tell() != size:
            raise InputError(
                f"{source} changed while it was copied.",
                "",
                "Try again when it is complete.",
                code="file-changed",
            )


def _check(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise CancelledError("Cancelled.", to_do="Nothing was changed.")
