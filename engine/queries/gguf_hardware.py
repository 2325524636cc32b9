"""Where llama.cpp runs a model: how many threads, and whether on a GPU, each with its reason."""

from __future__ import annotations

ALL_LAYERS = -1
LOOK_SECONDS = 0.3


def choose_layers(gpu: bool) -> tuple[int, str]:
    """Layers to put on the GPU: all (-1) or none."""
    if gpu:
        return ALL_LAYERS, "this build of llama.cpp can use a GPU"
    return 0, "this build of llama.cpp has no GPU support, or finds no GPU"


def free_threads() -> tuple[int, str]:
    """Cores that this process may use and that nobody is using now: a busy core slows all the others down."""
    import psutil

    from engine.encoders.hardware import detect_machine

    machine = detect_machine(look_for_cuda=False)
    busy = psutil.cpu_percent(interval=LOOK_SECONDS) / 100 * (psutil.cpu_count() or 1)
    return threads_for(machine.cores, machine.cores_reason, busy)


def threads_for(cores: int, reason: str, busy: float) -> tuple[int, str]:
    """At least one thread; `busy` is the number of cores that other programs keep busy."""
    taken = min(cores - 1, round(busy))
    return (cores - taken, f"{reason}, less {taken} in use by other programs") if taken else (cores, reason)
