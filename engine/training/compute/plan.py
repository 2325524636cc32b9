"""How the steps of a training are computed on this machine: choices of speed and memory, each with its reason.

None of them changes what is computed beyond the rounding of floating-point numbers.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import psutil

from engine.encoders.hardware import Hardware, HardwareChoice
from engine.training.compute.workers import GraphModel
from engine.training.config import CPU_SLACK, CUDA_SCALE, MIN_CUDA_SCALE, TrainingConfig

_COMPILED_STEPS = 100  # compiling takes a minute or two
_TRITON_CAPABILITY = (7, 0)
_MB = 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """`micro_batch_tokens`: padded tokens of a micro-batch. `graph_bytes`: what a step's graphs may hold at once.

    `fused`: AdamW as one kernel. `checkpointing`, `compiled`: see `engine.training.compute.blocks`. `choices` are reported.
    """

    checkpointing: bool
    compiled: bool
    fused: bool
    micro_batch_tokens: int
    graph_bytes: float
    choices: tuple[HardwareChoice, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """What was found: `free` bytes on the device, and whether torch.compile can be used there (else why not)."""

    free: int
    no_compiler: str = ""


def look(hardware: Hardware, processes: int = 1) -> Room:
    """Measure the device that training runs on, whose memory several processes share where it is the CPU."""
    if hardware.device == "cpu":
        free = psutil.virtual_memory().available // processes
        return Room(free, "it is for GPUs; on a CPU micro-batches run side by side instead")
    import torch

    torch.cuda.empty_cache()  # what the encoder of the teacher's vectors has left with the allocator is free, too
    free, _ = torch.cuda.mem_get_info(hardware.device)
    if torch.cuda.get_device_capability(hardware.device) < _TRITON_CAPABILITY:
        return Room(free, "the GPU is too old for it")
    return Room(free, "" if importlib.util.find_spec("triton") else "the package triton is missing")


def make_plan(student: GraphModel, config: TrainingConfig, hardware: Hardware, room: Room) -> Plan:
    """Decide for a loaded model (pure)."""
    checkpointing, tokens = _memory(student, config, hardware, room)
    graphs = graph_bytes(config, hardware, room.free)
    compiled = _compiled(config, room)
    fused = hardware.device != "cpu"
    return Plan(
        checkpointing.value == "on", compiled.value == "on", fused, tokens, graphs,
        (checkpointing, _tokens_choice(tokens, config, hardware), compiled),
    )  # fmt: skip


def graph_bytes(config: TrainingConfig, hardware: Hardware, free: float) -> float:
    """What the graphs of a step may hold at once: as much as is set, or a share of the bytes that are `free`. On a GPU never
    more than half of those: on a small one that is less than the setting."""
    cpu = hardware.device == "cpu"
    if config.graph_memory_mb is None:
        return free / (2 * CPU_SLACK) if cpu else free / 2
    wanted = config.graph_memory_mb * _MB
    return wanted if cpu else min(CUDA_SCALE * wanted, free / 2)


def _memory(student: GraphModel, config: TrainingConfig, hardware: Hardware, room: Room) -> tuple[HardwareChoice, int]:
    """Whether blocks are computed twice, and the tokens of a micro-batch, whose graph has to fit in half of the memory.

    On a GPU the micro-batch shrinks first, because smaller ones cost less than computing every block twice.
    """
    cpu = hardware.device == "cpu"
    wanted = config.micro_batch_tokens * (1 if cpu else CUDA_SCALE)
    least = config.micro_batch_tokens * (1 if cpu else MIN_CUDA_SCALE)
    plain, thrifty = (student.bytes_per_token(config.max_tokens, checkpointing=on) for on in (False, True))
    needed, half = max(config.max_tokens, least) * plain, room.free / 2
    choice = _checkpointing(config.gradient_checkpointing, needed, half)
    fitting = int(half / (thrifty if choice.value == "on" else plain))
    return choice, max(least, min(wanted, fitting))


def _tokens_choice(tokens: int, config: TrainingConfig, hardware: Hardware) -> HardwareChoice:
    scale = 1 if hardware.device == "cpu" else CUDA_SCALE
    why = "training.micro_batch_tokens" if scale == 1 else f"training.micro_batch_tokens, times {scale} on a GPU"
    if tokens < scale * config.micro_batch_tokens:
        why = "as many as fit in half of the free memory"
    return HardwareChoice("micro-batch", f"{tokens:,} tokens", why)


def _checkpointing(wish: str, needed: float, half: float) -> HardwareChoice:
    name = "gradient checkpointing"
    if wish != "auto":
        return HardwareChoice(name, wish, "as set")
    figures = f"the graph of a micro-batch takes about {needed / _MB:,.0f} MB; half of the free memory is {half / _MB:,.0f} MB"
    return HardwareChoice(name, "on" if needed > half else "off", figures)


def _compiled(config: TrainingConfig, room: Room) -> HardwareChoice:
    name = "compiled blocks"
    if config.compile == "off":
        return HardwareChoice(name, "off", "as set")
    if room.no_compiler:
        return HardwareChoice(name, "off", room.no_compiler)
    if config.compile == "on":
        return HardwareChoice(name, "on", "as set")
    if config.steps < _COMPILED_STEPS:
        return HardwareChoice(name, "off", f"compiling takes longer than {config.steps} steps benefit from it")
    return HardwareChoice(name, "on", "a GPU runs compiled blocks faster")
