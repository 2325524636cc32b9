"""How the steps of a training are computed on this machine: choices of speed and memory.

None of them changes what is computed, apart from the rounding of floating-point numbers.
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
    """Choices of speed and memory."""

    checkpointing: bool
    """Whether blocks are computed twice (`Student.checkpoint_blocks`)."""
    fused: bool
    """Whether AdamW runs as one kernel."""
    micro_batch_tokens: int
    """Maximum number of padded tokens of a micro-batch."""
    graph_bytes: float
    """Bytes that all graphs of a step may hold together."""
    choices: tuple[HardwareChoice, ...]
    """The choices as they are reported to the user."""


def free_memory(hardware: Hardware, processes: int = 1) -> int:
    """Return the free bytes of the device; on a CPU, the share of one of so many `processes`."""
    if hardware.device == "cpu":
        return psutil.virtual_memory().available // processes
    import torch

    # Memory that the allocator kept from encoding the teacher's vectors is free, too.
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(hardware.device)[0])


def make_plan(
    student: GraphModel,
    config: TrainingConfig,
    hardware: Hardware,
    free: int,
) -> Plan:
    """Return the plan for a loaded model on a device with so many `free` bytes."""
    checkpointing, tokens = _plan_memory(
        student,
        config,
        hardware,
        free,
    )
    graphs = graph_bytes(config, hardware, free)
    choices = (checkpointing, _tokens_choice(tokens, config, hardware))
    return Plan(
        checkpointing=checkpointing.value == "on",
        fused=hardware.device != "cpu",
        micro_batch_tokens=tokens,
        graph_bytes=graphs,
        choices=choices,
    )


def graph_bytes(
    config: TrainingConfig,
    hardware: Hardware,
    free: float,
) -> float:
    """Return the bytes for all graphs of a step: the setting, or a share of the free memory.

    On a GPU it is never more than half of the free memory, which may be less than the setting.
    """
    is_cpu = hardware.device == "cpu"
    if config.graph_memory_mb is None:
        if is_cpu:
            return free / (2 * CPU_SLACK)
        return free / 2
    wanted = config.graph_memory_mb * _MB
    if is_cpu:
        return wanted
    return min(CUDA_SCALE * wanted, free / 2)


def _plan_memory(
    student: GraphModel, config: TrainingConfig, hardware: Hardware, free: int
) -> tuple[HardwareChoice, int]:
    """Return whether blocks are computed twice, and the tokens of a micro-batch.

    A micro-batch's graph has to fit in half of the memory. On a GPU the micro-batch shrinks first,
    because that costs less than computing every block twice.
    """
    is_cpu = hardware.device == "cpu"
    wanted = config.micro_batch_tokens
    least = config.micro_batch_tokens
    if not is_cpu:
        wanted *= CUDA_SCALE
        least *= MIN_CUDA_SCALE
    bytes_per_token = student.bytes_per_token(config.max_tokens, checkpointing=False)
    needed = max(config.max_tokens, least) * bytes_per_token
    half = free / 2
    choice = _choose_checkpointing(
        config.gradient_checkpointing,
        needed,
        half,
    )
    if choice.value == "on":
        bytes_per_token = student.bytes_per_token(config.max_tokens, checkpointing=True)
    fitting = int(half / bytes_per_token)
    return choice, max(least, min(wanted, fitting))


def _tokens_choice(
    tokens: int,
    config: TrainingConfig,
    hardware: Hardware,
) -> HardwareChoice:
    """Return the size of a micro-batch as a choice to report, with the reason."""
    wanted = config.micro_batch_tokens
    why = "training.micro_batch_tokens"
    if hardware.device != "cpu":
        wanted *= CUDA_SCALE
        why = f"training.micro_batch_tokens, times {CUDA_SCALE} on a GPU"
    if tokens < wanted:
        why = "as many as fit in half of the free memory"
    return HardwareChoice(
        "micro-batch",
        f"{tokens:,} tokens",
        why,
    )


def _choose_checkpointing(
    wish: str,
    needed: float,
    half: float,
) -> HardwareChoice:
    """Choose gradient checkpointing: as set, or if `needed` bytes exceed `half` of the memory."""
    name = "gradient checkpointing"
    if wish != "auto":
        return HardwareChoice(name, wish, "as set")
    figures = (
        f"the graph of a micro-batch takes about {needed / _MB:,.0f} MB; half of the free memory is"
        f" {half / _MB:,.0f} MB"
    )
    return HardwareChoice(
        name,
        "on" if needed > half else "off",
        figures,
    )
