"""Where llama.cpp runs a model: how many threads, how much of it on a GPU, each with its reason."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError
from engine.core.processors import available_cores
from engine.core.text import size_text
from engine.gguf.file import parts_of
from engine.gguf.header import Header, read_header

ALL_LAYERS = -1
LOOK_SECONDS = 0.3
GPU_WORKSPACE = 600_000_000  # bytes of a GPU that computing takes beside weights and cache
_GPU = 1  # enum ggml_backend_dev_type
_INTEGRATED = 2


@dataclass(frozen=True, slots=True)
class Weight:
    """What a model takes: bytes of all its weights, its layers, bytes of a token of context (0:
    not known), and the tokens of context that are wanted.
    """

    size: int
    layers: int
    token: int
    context: int

    @classmethod
    def of(cls, size: int, header: Header, context: int) -> Weight:
        """By a header. A model has no cache for more tokens than it knows."""
        return cls(size, header.layers, header.cache_bytes, min(context, header.context or context))

    @property
    def memory(self) -> int:
        """Bytes of the weights and of the cache of the context."""
        return self.size + self.token * self.context


def weight_of(path: Path, context: int) -> Weight:
    """By the file's header; of one that cannot be read, as far as it is known."""
    size = sum(part.stat().st_size for part in parts_of(path) if part.exists())
    try:
        return Weight.of(size, read_header(path), context)
    except ModelError:  # llama.cpp may know more than we do, or say why it cannot be used
        return Weight(size, 0, 0, context)


def too_large(weight: Weight) -> str:
    """What to say of a model that does not fit into the free memory; empty where it does."""
    import psutil

    free = psutil.virtual_memory().available
    needed = weight.memory
    if needed <= free:
        return ""
    return (
        f"takes {size_text(needed)} of memory with a context of {weight.context} tokens, and"
        f" {size_text(free)} are free: it will be slow, or the system may end it. A smaller model,"
        " or lower queries.context_tokens, takes less."
    )


def free_gpu_memory() -> tuple[tuple[str, int], ...]:
    """(name, bytes free) of every GPU that llama.cpp can use."""
    return tuple((name, free) for kind, name, free in devices() if kind in (_GPU, _INTEGRATED))


def devices() -> list[tuple[int, str, int]]:
    """(kind, name, bytes free) of all that llama.cpp computes on, the processor among them."""
    from llama_cpp import _ggml

    lib: Any = _ggml.libggml
    lib.ggml_backend_dev_count.restype = ctypes.c_size_t
    lib.ggml_backend_dev_get.restype = ctypes.c_void_p
    lib.ggml_backend_dev_description.restype = ctypes.c_char_p
    found = []
    for number in range(lib.ggml_backend_dev_count()):
        device = ctypes.c_void_p(lib.ggml_backend_dev_get(ctypes.c_size_t(number)))
        free = ctypes.c_size_t()
        total = ctypes.c_size_t()
        lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        name = (lib.ggml_backend_dev_description(device) or b"").decode("utf-8", "replace")
        found.append((int(lib.ggml_backend_dev_type(device)), name, free.value))
    return found


def choose_layers(gpus: Sequence[tuple[str, int]], weight: Weight) -> tuple[int, str]:
    """Layers to put on the GPUs: all (-1), some, or none (0), by the memory that is free there.

    `gpus`: (name, bytes free).

    The last part of a model, its output, counts as one layer more.
    """
    if not gpus:
        return 0, "this build of llama.cpp has no GPU support, or finds no GPU"
    free = sum(free for _, free in gpus)
    where = f"{free / 1e9:.1f} GB are free on {', '.join(dict.fromkeys(name for name, _ in gpus))}"
    if weight.memory + GPU_WORKSPACE * len(gpus) <= free:
        return ALL_LAYERS, f"{where}, the model takes {weight.memory / 1e9:.1f} GB"
    if not weight.layers:
        return 0, f"{where}, which is too little for a model of {weight.size / 1e9:.1f} GB"
    each = weight.memory / (weight.layers + 1)
    layers = max(0, min(weight.layers, int((free - GPU_WORKSPACE * len(gpus)) / each)))
    return layers, f"{where}; each of the model's {weight.layers} layers takes {each / 1e9:.2f} GB"


def free_threads() -> tuple[int, str]:
    """Cores that this process may use and that nobody is using now: a busy core slows all the
    others down.
    """
    import psutil

    cores, reason = available_cores()
    busy = psutil.cpu_percent(interval=LOOK_SECONDS) / 100 * (psutil.cpu_count() or 1)
    return threads_for(cores, reason, busy)


def threads_for(cores: int, reason: str, busy: float) -> tuple[int, str]:
    """At least one thread; `busy` is the number of cores that other programs keep busy."""
    taken = min(cores - 1, round(busy))
    if taken:
        return (cores - taken, f"{reason}, less {taken} in use by other programs")
    return (cores, reason)
