"""How the steps of a training are computed on this machine: choices of speed and memory, each
with its reason.

None of them changes what is computed beyond the rounding of floating-point numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from engine.encoders.hardware import Hardware, HardwareChoice
from engine.training.compute.workers import GraphModel
from engine.training.config import CPU_SLACK, CUDA_SCALE, MIN_CUDA_SCALE, TrainingConfig

_MB = 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """`micro_batch_tokens`: padded tokens of a micro-batch.

    `graph_bytes`: what a step's graphs may hold at once.

    `fused`: AdamW as one kernel. `checkpointing`: see `Student.checkpoint_blocks`. `choices` are
        reported.
    """

    checkpointing: bool
    fused: bool
    micro_batch_tokens: int
    graph_bytes: float
    choices: tuple[HardwareChoice, ...]


def free_memory(hardware: Hardware, processes: int = 1) -> int:
    """Bytes on the device that training runs on, of which several processes share those of the
    CPU.
    """
    if hardware.device == "cpu":
        return psutil.virtual_memory().available // processes
    import torch

    # what the encoder of the teacher's vectors has left with the allocator is free, too
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(hardware.device)[0])


def make_plan(student: GraphModel, config: TrainingConfig, hardware: Hardware, free: int) -> Plan:
    """Decide for a loaded model and so many `free` bytes (pure)."""
    checkpointing, tokens = _memory(student, config, hardware, free)
    graphs = graph_bytes(config, hardware, free)
    choices = (checkpointing, _tokens_choice(tokens, config, hardware))
    return Plan(checkpointing.value == "on", hardware.device != "cpu", tokens, graphs, choices)


def graph_bytes(config: TrainingConfig, hardware: Hardware, free: float) -> float:
    """What the graphs of a step may hold at once: as much as is set, or a share of the bytes
    that are `free`. On a GPU never more than half of those: on a small one that is less than the
    setting.
    """
    cpu = hardware.device == "cpu"
    if config.graph_memory_mb is None:
        return free / (2 * CPU_SLACK) if cpu else free / 2
    wanted = config.graph_memory_mb * _MB
    if cpu:
        return wanted
    return min(CUDA_SCALE * wanted, free / 2)


def _memory(
    student: GraphModel, config: TrainingConfig, hardware: Hardware, free: int
) -> tuple[HardwareChoice, int]:
    """Whether blocks are computed twice, and the tokens of a micro-batch, whose graph has to fit
    in half of the memory.

    On a GPU the micro-batch shrinks first, because smaller ones cost less than computing every
    block twice.
    """
    cpu = hardware.device == "cpu"
    wanted = config.micro_batch_tokens * (1 if cpu else CUDA_SCALE)
    least = config.micro_batch_tokens * (1 if cpu else MIN_CUDA_SCALE)
    plain, thrifty = (
        student.bytes_per_token(config.max_tokens, checkpointing=on) for on in (False, True)
    )
    needed = max(config.max_tokens, least) * plain
    half = free / 2
    choice = _checkpointing(config.gradient_checkpointing, needed, half)
    fitting = int(half / (thrifty if choice.value == "on" else plain))
    return choice, max(least, min(wanted, fitting))


def _tokens_choice(tokens: int, config: TrainingConfig, hardware: Hardware) -> HardwareChoice:
    scale = 1 if hardware.device == "cpu" else CUDA_SCALE
    if scale == 1:
        why = "training.micro_batch_tokens"
    else:
        why = f"training.micro_batch_tokens, times {scale} on a GPU"
    if tokens < scale * config.micro_batch_tokens:
        why = "as many as fit in half of the free memory"
    return HardwareChoice("micro-batch", f"{tokens:,} tokens", why)


def _checkpointing(wish: str, needed: float, half: float) -> HardwareChoice:
    name = "gradient checkpointing"
    if wish != "auto":
        return HardwareChoice(name, wish, "as set")
    figures = (
        f"the graph of a micro-batch takes about {needed / _MB:,.0f} MB; half of the free memory is"
        f" {half / _MB:,.0f} MB"
    )
    return HardwareChoice(name, "on" if needed > half else "off", figures)
