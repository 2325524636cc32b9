"""The language models on this machine: their properties, memory and integrity; adding one."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.core.disk import check_room, disk_errors, expand_home, replace_file
from engine.core.errors import InputError, ModelError, UsageError
from engine.core.extras import describe_missing
from engine.core.messages.queries import ModelFile
from engine.core.platforms.files import sync
from engine.core.subprocesses import run_in_subprocess
from engine.gguf.file import PART
from engine.gguf.hardware import ModelMemory
from engine.gguf.header import Header, not_a_writer, read_header
from engine.gguf.places import FoundModel, find_models
from engine.models.files import read_blocks
from engine.models.installed import models_folder

CHECK = "engine.gguf.llama"
"""The module that loads a model's vocabulary in a process of its own, which llama.cpp may crash."""
WORKSPACE = 300_000_000  # Bytes of llama.cpp's buffers besides weights and cache.
# Fields of a header that a listed model has as well; all None without a readable header.
_FROM_HEADER = (
    "architecture",
    "quantisation",
    "parameters",
    "context",
    "chat_template",
)


def list_models(context: int, free: int | None = None) -> list[ModelFile]:
    """Return all models in the usual places.

    `context`: tokens to keep room for. `free`: bytes of free memory, measured by default.
    """
    if free is None:
        import psutil

        free = int(psutil.virtual_memory().available)
    return [_describe_model(model, context, free) for model in find_models()]


def _describe_model(
    file: FoundModel,
    context: int,
    free: int,
) -> ModelFile:
    """Return the properties of a model, whether it fits into `free` bytes, or its problem."""
    size = 0
    header = None
    problem = ""
    try:
        size = sum(part.stat().st_size for part in file.parts or (file.path,))
        if file.size and size != file.size:
            problem = (
                f"It has {size:,} bytes instead of {file.size:,}: a download may have broken off."
            )
        header = read_header(file.path)
        unsuitable = not_a_writer(file.path, header)
        if not problem:
            problem = unsuitable.why if unsuitable else describe_missing("llm")
    except ModelError as error:
        problem = problem or error.why
    except OSError as error:
        name = Path(error.filename or file.path).name
        problem = problem or f"{name}: {error.strerror or error}."
    memory = 0
    fits = None
    if header and not problem:
        memory = WORKSPACE + ModelMemory.of(size, header, context).total
        fits = memory <= free
    header_fields = {name: getattr(header, name, None) for name in _FROM_HEADER}
    return ModelFile(
        file.path,
        file.place,
        file.names,
        size,
        **header_fields,
        problem=problem,
        memory=memory,
        fits=fits,
    )


def _sha256(path: Path, should_stop: Callable[[], bool]) -> str:
    """Return the hex sha256 of a file. Raises CancelledError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in read_blocks(file, should_stop):
            digest.update(block)
    return digest.hexdigest()


def add_model(
    source: Path,
    *,
    link: bool = False,
    name: str = "",
    should_stop: Callable[[], bool] = lambda: False,
) -> Path:
    """Put a copy of a model file, or a symbolic link to it, into our folder; return its path.

    The file appears under its name only when complete. Raises ModelError with the reason if it is
    no usable language model, UsageError if another file has its name, ResourceError on a full disk,
    CancelledError.
    """
    source = expand_home(source).absolute()
    try:
        header = _check_source(source, should_stop)
    except ModelError as error:
        error.to_do = (
            "Name another GGUF file of a language model, or get this one again. Nothing was added."
        )
        raise
    target = models_folder() / _choose_file_name(name or source.name, header)
    with disk_errors(f"{target} could not be written."):
        target.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        if os.path.lexists(target):
            _refuse_another(target, source, should_stop)
            return target
        if link:
            target.symlink_to(source)
            sync(target.parent)
        else:
            _copy(source, target, should_stop)
    return target


def _check_source(source: Path, should_stop: Callable[[], bool]) -> Header:
    """Return the header of a usable language model.

    Raises what `add_model` raises.
    """
    if PART.search(source.name):
        raise UsageError(
            f"{source.name} is one part of a model.",
            "A part alone cannot be loaded.",
            "Set queries.model to the path of the first part, or join the parts with"
            " llama-gguf-split --merge.",
            code="language-model-part",
        )
    header = read_header(source)
    unsuitable = not_a_writer(source, header)
    if unsuitable is not None:
        raise unsuitable
    run_in_subprocess(
        CHECK,
        [str(source)],
        f"llama.cpp, reading {source.name},",
        should_stop,
    )
    expected = _read_expected_digest(source)
    if expected and _sha256(source, should_stop) != expected:
        raise ModelError(
            f"The language model {source} cannot be used.",
            "Its sha256 is not the one in its name: it was changed or damaged.",
            code="language-model-damaged",
        )
    return header


def _read_expected_digest(source: Path) -> str:
    """Return the sha256 in the name of a blob; empty for other names."""
    name = source.resolve().name.removeprefix("sha256-")
    if len(name) == 64 and set(name) <= set("0123456789abcdef"):
        return name
    return ""


def _choose_file_name(name: str, header: Header) -> str:
    """Return the name for a copy; a blob of Ollama is named after what its header says."""
    if name.lower().endswith(".gguf"):
        return Path(name).name
    if name.startswith("sha256-"):
        name = f"{header.name or header.architecture}-{header.quantisation}"
    stem = re.sub(r"[^\w.-]", "-", name).strip(".-")
    return f"{stem or 'model'}.gguf"


def _refuse_another(
    target: Path,
    source: Path,
    should_stop: Callable[[], bool],
) -> None:
    """Raise UsageError unless the file at `target` has the content of `source`."""
    with suppress(OSError):
        if target.samefile(source):
            return
        has_same_size = target.stat().st_size == source.stat().st_size
        if has_same_size and _sha256(target, should_stop) == _sha256(source, should_stop):
            return
    raise UsageError(
        f"{target} already exists.",
        "It is a different file.",
        "Remove it, or give this one another name with --name.",
        code="target-exists",
    )


def _copy(
    source: Path,
    target: Path,
    should_stop: Callable[[], bool],
) -> None:
    """Copy a file; an incomplete copy is removed now, or by the next attempt."""
    size = source.stat().st_size
    temporary = target.with_name(f".tmp-{target.name}")
    temporary.unlink(missing_ok=True)
    check_room(target.parent, size, "use --link")
    with source.open("rb") as old, replace_file(target, temporary) as new:
        for block in read_blocks(old, should_stop):
            new.write(block)
        if new.tell() != size:
            raise InputError(
                f"{source} changed while it was copied.",
                "",
                "Try again when it is complete.",
                code="file-changed",
            )
