"""Where llama.cpp runs a model: how many threads, how much of it on a GPU, how many answers at once, each with its reason."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError
from engine.core.processors import available_cores
from engine.core.text import megabytes
from engine.gguf.file import parts_of
from engine.gguf.header import read_header

ALL_LAYERS = -1
LOOK_SECONDS = 0.3
GPU_WORKSPACE = 600_000_000  # bytes of a GPU that computing takes beside weights and cache
KEPT_FREE = 0.1  # of the free memory: other programs want some, too
AT_ONCE = (1, 2, 4, 8)
WORTHWHILE, AS_GOOD = 1.15, 0.95
_GPU, _INTEGRATED = 1, 2  # enum ggml_backend_dev_type


@dataclass(frozen=True, slots=True)
class Weight:
    """What a model takes: bytes of all its weights, its layers, bytes of a token of context (0: not known), and the tokens of
    context that are wanted."""

    size: int
    layers: int
    token: int
    context: int


def weighed(path: Path, context: int) -> Weight:
    """By the file's header; of one that cannot be read, as far as it can be told."""
    size = sum(part.stat().st_size for part in parts_of(path) if part.exists())
    try:
        header = read_header(path)
    except ModelError:  # llama.cpp may know more than we do, or tell why it cannot be used
        return Weight(size, 0, 0, context)
    return Weight(size, header.layers, header.cache_bytes, min(context, header.context or context))


def too_large(weight: Weight) -> str:
    """What to say of a model that does not fit into the free memory; empty where it does."""
    import psutil

    free, needed = psutil.virtual_memory().available, weight.size + weight.token * weight.context
    if needed <= free:
        return ""
    return (
        f"takes {megabytes(needed)} of memory with a context of {weight.context} tokens, and {megabytes(free)} are free: it will "
        "be slow, or the system may end it. A smaller model, or lower queries.context_tokens, takes less."
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
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        name = (lib.ggml_backend_dev_description(device) or b"").decode("utf-8", "replace")
        found.append((int(lib.ggml_backend_dev_type(device)), name, free.value))
    return found


def choose_layers(gpus: Sequence[tuple[str, int]], weight: Weight) -> tuple[int, str]:
    """Layers to put on the GPUs: all (-1), some, or none (0), by the memory that is free there. `gpus`: (name, bytes free).

    The last part of a model, its output, counts as one layer more.
    """
    if not gpus:
        return 0, "this build of llama.cpp has no GPU support, or finds no GPU"
    free = sum(free for _, free in gpus)
    where = f"{free / 1e9:.1f} GB are free on {', '.join(dict.fromkeys(name for name, _ in gpus))}"
    cache = weight.token * weight.context
    if weight.size + cache + GPU_WORKSPACE * len(gpus) <= free:
        return ALL_LAYERS, f"{where}, the model takes {(weight.size + cache) / 1e9:.1f} GB"
    if not weight.layers:
        return 0, f"{where}, which is too little for a model of {weight.size / 1e9:.1f} GB"
    each = (weight.size + cache) / (weight.layers + 1)
    layers = max(0, min(weight.layers, int((free - GPU_WORKSPACE * len(gpus)) / each)))
    return layers, f"{where}; each of the model's {weight.layers} layers takes {each / 1e9:.2f} GB"


def at_once_by_memory(free: int, weight: Weight, context: int) -> tuple[int, str]:
    """How many sequences of `context` tokens fit into `free` bytes, at most the last of `AT_ONCE`."""
    if not weight.token:
        return 1, "the file does not tell how much memory a further one takes"
    each = weight.token * context
    fitting = int((1 - KEPT_FREE) * free / each)
    most = max((count for count in AT_ONCE if count <= fitting), default=1)
    return most, f"a further one takes {each / 1e9:.2f} GB of memory, {free / 1e9:.1f} GB are free"


def at_once_by_pace(pace: Callable[[int], float], most: int) -> tuple[int, str]:
    """The number up to `most` that is fastest by `pace` (tokens a second of so many at once), the smallest of equals.

    Several are only taken where they are clearly faster than one.
    """
    paces = {count: pace(count) for count in AT_ONCE if count <= most}
    best = max(paces.values())
    chosen = next(count for count, found in paces.items() if found >= AS_GOOD * best)
    if chosen == 1 or best < WORTHWHILE * paces[1]:
        others = max((found for count, found in paces.items() if count > 1), default=0.0)
        return (
            1,
            f"several at once are not faster on this machine: {_told(others)} tokens/s, one alone {_told(paces[1])}",
        )
    return (
        chosen,
        f"{_told(paces[chosen])} tokens/s, one alone {_told(paces[1])}: {paces[chosen] / paces[1]:.1f} times as fast",
    )


def _told(pace: float) -> str:
    return f"{pace:,.0f}" if pace >= 100 else f"{pace:.3g}"


def free_threads() -> tuple[int, str]:
    """Cores that this process may use and that nobody is using now: a busy core slows all the others down."""
    import psutil

    cores, reason = available_cores()
    busy = psutil.cpu_percent(interval=LOOK_SECONDS) / 100 * (psutil.cpu_count() or 1)
    return threads_for(cores, reason, busy)


def threads_for(cores: int, reason: str, busy: float) -> tuple[int, str]:
    """At least one thread; `busy` is the number of cores that other programs keep busy."""
    taken = min(cores - 1, round(busy))
    return (cores - taken, f"{reason}, less {taken} in use by other programs") if taken else (cores, reason)
