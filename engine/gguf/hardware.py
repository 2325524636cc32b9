"""Where llama.cpp runs a model: how many threads, and how much of it on a GPU, with reasons."""

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
GPU_WORKSPACE = 600_000_000  # Bytes of a GPU that computing takes besides weights and cache.
# Values of enum ggml_backend_dev_type.
_GPU = 1
_INTEGRATED = 2


@dataclass(frozen=True, slots=True)
class Weight:
    """What a model takes in memory.

    `size`: bytes of its weights. `token`: bytes of a token of context; 0 if unknown. `context`: the
    tokens of context wanted.
    """

    size: int
    layers: int
    token: int
    context: int

    @classmethod
    def of(cls, size: int, header: Header, context: int) -> Weight:
        """Return the weight by a header; a model has no cache for more tokens than it knows."""
        return cls(size, header.layers, header.cache_bytes, min(context, header.context or context))

    @property
    def memory(self) -> int:
        """Bytes of the weights and of the cache of the context."""
        return self.size + self.token * self.context


def weight_of(path: Path, context: int) -> Weight:
    """Return the weight by the file's header; without layers and cache if it cannot be read."""
    size = sum(part.stat().st_size for part in parts_of(path) if part.exists())
    try:
        return Weight.of(size, read_header(path), context)
    except ModelError:
        # llama.cpp may know more than we do, or say why the model cannot be used.
        return Weight(size, 0, 0, context)


def too_large(weight: Weight) -> str:
    """Return a warning about a model that exceeds the free memory; empty if it fits."""
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
    """Return (name, bytes free) of every GPU that llama.cpp can use."""
    return tuple((name, free) for kind, name, free in devices() if kind in (_GPU, _INTEGRATED))


def devices() -> list[tuple[int, str, int]]:
    """Return (kind, name, bytes free) of every device of llama.cpp, processors included."""
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
        lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        name = (lib.ggml_backend_dev_description(device) or b"").decode("utf-8", "replace")
        listed.append((int(lib.ggml_backend_dev_type(device)), name, free.value))
    return listed


def choose_layers(gpus: Sequence[tuple[str, int]], weight: Weight) -> tuple[int, str]:
    """Return how many layers to put on GPUs, by their free memory, and why.

    The number is all (-1), some, or none (0). `gpus`: (name, bytes free). The last part of a model,
    its output, counts as one more layer.
    """
    if not gpus:
        return 0, "this build of llama.cpp has no GPU support, or finds no GPU"
    free = sum(free for _, free in gpus)
    names = ", ".join(dict.fromkeys(name for name, _ in gpus))
    reason = f"{free / 1e9:.1f} GB are free on {names}"
    usable = free - GPU_WORKSPACE * len(gpus)
    if weight.memory <= usable:
        return ALL_LAYERS, f"{reason}, the model takes {weight.memory / 1e9:.1f} GB"
    if not weight.layers:
        return 0, f"{reason}, which is too little for a model of {weight.size / 1e9:.1f} GB"
    layer_size = weight.memory / (weight.layers + 1)
    layers = max(0, min(weight.layers, int(usable / layer_size)))
    reason += f"; each of the model's {weight.layers} layers takes {layer_size / 1e9:.2f} GB"
    return layers, reason


def free_threads() -> tuple[int, str]:
    """Return how many cores this process may use that nobody uses now, and why.

    A busy core slows all the others down.
    """
    import psutil

    cores, reason = available_cores()
    busy = psutil.cpu_percent(interval=LOOK_SECONDS) / 100 * (psutil.cpu_count() or 1)
    return threads_for(cores, reason, busy)


def threads_for(cores: int, reason: str, busy: float) -> tuple[int, str]:
    """Return the number of threads, at least one, and why.

    `busy`: the number of cores that other programs keep busy.
    """
    taken = min(cores - 1, round(busy))
    if taken:
        return (cores - taken, f"{reason}, less {taken} in use by other programs")
    return (cores, reason)
