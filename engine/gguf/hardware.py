"""Where llama.cpp runs a model: how many threads, and how much of it on a GPU, with reasons."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from engine.core.errors import ModelError
from engine.core.processors import available_cores
from engine.core.text import size_text
from engine.gguf.file import parts_of
from engine.gguf.header import Header, read_header

ALL_LAYERS = -1
LOOK_SECONDS = 0.3  # for which the load of the processor is measured
GPU_WORKSPACE = 600_000_000  # Bytes of a GPU that computing takes besides weights and cache.
# Values of enum ggml_backend_dev_type.
_GPU = 1
_INTEGRATED = 2


class Device(NamedTuple):
    """A device of llama.cpp; `kind` is a value of ggml_backend_dev_type, `free` in bytes."""

    kind: int
    name: str
    free: int


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """What a model takes in memory."""

    size: int
    """Bytes of its weights."""
    layers: int
    """Number of its layers; 0 if unknown."""
    cache_bytes: int
    """Bytes of the cache for a token of context; 0 if unknown."""
    context: int
    """Number of tokens of context that are wanted."""

    @classmethod
    def of(
        cls,
        size: int,
        header: Header,
        context: int,
    ) -> ModelMemory:
        """Return the memory by a header; a model has no cache for more tokens than it knows."""
        return cls(
            size,
            header.layers,
            header.cache_bytes,
            min(context, header.context or context),
        )

    @property
    def total(self) -> int:
        """Bytes of the weights and of the cache of the context."""
        return self.size + self.cache_bytes * self.context


def read_model_memory(path: Path, context: int) -> ModelMemory:
    """Return a model's memory; without layers and cache if its header cannot be read."""
    size = sum(part.stat().st_size for part in parts_of(path) if part.exists())
    try:
        return ModelMemory.of(
            size,
            read_header(path),
            context,
        )
    except ModelError:
        # llama.cpp may know more than we do, or say why the model cannot be used.
        return ModelMemory(
            size,
            layers=0,
            cache_bytes=0,
            context=context,
        )


def describe_shortage(needed: ModelMemory) -> str:
    """Return a warning about a model that exceeds the free memory; empty if it fits.

    It begins with "takes 5 GB of memory": the caller puts the model's name before it.
    """
    import psutil

    free = psutil.virtual_memory().available
    if needed.total <= free:
        return ""
    return (
        f"takes {size_text(needed.total)} of memory with a context of {needed.context} tokens, and"
        f" {size_text(free)} are free: it will be slow, or the system may end it. A smaller model,"
        " or lower queries.context_tokens, takes less."
    )


def free_gpu_memory() -> tuple[tuple[str, int], ...]:
    """Return (name, bytes free) of every GPU that llama.cpp can use."""
    return tuple((name, free) for kind, name, free in devices() if kind in (_GPU, _INTEGRATED))


def devices() -> list[Device]:
    """Return every device of llama.cpp, processors included."""
    from llama_cpp import _ggml

    lib: Any = _ggml.libggml
    lib.ggml_backend_dev_count.restype = ctypes.c_size_t
    lib.ggml_backend_dev_get.restype = ctypes.c_void_p
    lib.ggml_backend_dev_description.restype = ctypes.c_char_p
    listed = []
    for number in range(lib.ggml_backend_dev_count()):
        device = ctypes.c_void_p(lib.ggml_backend_dev_get(ctypes.c_size_t(number)))
        free = ctypes.c_size_t()
        total = ctypes.c_size_t()
        lib.ggml_backend_dev_memory(
            device,
            ctypes.byref(free),
            ctypes.byref(total),
        )
        name = (lib.ggml_backend_dev_description(device) or b"").decode("utf-8", "replace")
        listed.append(Device(int(lib.ggml_backend_dev_type(device)), name, free.value))
    return listed


def choose_layers(gpus: Sequence[tuple[str, int]], model: ModelMemory) -> tuple[int, str]:
    """Return how many layers to put on GPUs, by their free memory, and why.

    The number is −1 for all of them. `gpus`: name and free bytes of each. The output of a model,
    which comes after its layers, is counted as one more layer.
    """
    if not gpus:
        return 0, "this build of llama.cpp has no GPU support, or finds no GPU"
    free = sum(free_on_gpu for _, free_on_gpu in gpus)
    names = ", ".join(dict.fromkeys(name for name, _ in gpus))
    reason = f"{free / 1e9:.1f} GB are free on {names}"
    usable = free - GPU_WORKSPACE * len(gpus)
    if model.total <= usable:
        return ALL_LAYERS, f"{reason}, the model takes {model.total / 1e9:.1f} GB"
    if not model.layers:
        return 0, f"{reason}, which is too little for a model of {model.size / 1e9:.1f} GB"
    layer_size = model.total / (model.layers + 1)
    layers = max(0, min(model.layers, int(usable / layer_size)))
    reason += f"; each of the model's {model.layers} layers takes {layer_size / 1e9:.2f} GB"
    return layers, reason


def free_threads() -> tuple[int, str]:
    """Return how many cores this process may use that no other program uses now, and why.

    The threads of a computation wait for each other, so one on a busy core slows down all.
    """
    import psutil

    cores, reason = available_cores()
    busy_share = psutil.cpu_percent(interval=LOOK_SECONDS) / 100
    busy = busy_share * (psutil.cpu_count() or 1)
    return threads_for(cores, reason, busy)


def threads_for(
    cores: int,
    reason: str,
    busy: float,
) -> tuple[int, str]:
    """Return the number of threads, at least one, and why.

    `cores`: the cores that this process may use, for `reason`. `busy`: the number of cores that
    other programs keep busy.
    """
    taken = min(cores - 1, round(busy))
    if taken:
        return (cores - taken, f"{reason}, less {taken} in use by other programs")
    return (cores, reason)
