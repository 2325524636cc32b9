"""What a run of a project needs of memory and disk: estimates, each with its formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.text import megabytes
from engine.settings.schema import Settings
from engine.training.config import CUDA_SCALE, MIN_CUDA_SCALE, TrainingConfig

if TYPE_CHECKING:
    from engine.encoders.hardware import Hardware
    from engine.encoders.model_size import ModelSize

PROGRAM_BYTES = 500_000_000  # measured: Python with torch, transformers and peft, before a model is loaded
LINK_BYTES = 150  # measured: what usearch's graph adds to each vector
WEIGHT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
INDEX_BYTES = {"f32": 4, "f16": 2, "i8": 1}
CPU_SLACK = 3  # measured: what the system's allocator holds for graphs of ever other sizes, per byte of the largest
ADAPTERS_AT_ONCE = (
    14  # the adapter, its copy, and three checkpoints of four: weights, the best ones, AdamW's two moments
)


@dataclass(frozen=True, slots=True)
class Need:
    """An estimate in bytes, and how it was made."""

    bytes: int
    formula: str


def training_need(size: ModelSize, config: TrainingConfig, hardware: Hardware, chunks: int, free: int) -> Need:
    """Memory of the stage that needs most, on the device that it runs on. `free`: bytes that are free there.

    A step's graphs are kept as far as `graph_memory_mb` allows; beyond it, one micro-batch per thread is held at a time,
    as many as fit into half of what is free. On a GPU both shrink to half of what the weights leave free; where that is too
    little, blocks are computed twice, as `engine.training.compute.plan` decides.
    """
    on_gpu, weight = hardware.device != "cpu", WEIGHT_BYTES[hardware.dtype]
    weights = size.parameters * weight
    weights_formula = f"{size.parameters / 1e6:,.1f} million parameters × {weight} bytes = {megabytes(weights)}"
    graphs = _graphs_on_gpu(size, config, weight, free - weights) if on_gpu else _graphs(size, config, hardware, free)
    parts = [weights_formula, f"a training step's graphs {megabytes(graphs)}"]
    if on_gpu:
        return Need(weights + graphs, " + ".join(parts))
    vectors = chunks * size.width * 4
    parts[-1] += f" × {CPU_SLACK}, as memory is not given back at once"
    parts.append(f"{chunks:,} chunks × {size.width} dimensions × 4 bytes = {megabytes(vectors)}")
    parts.append(f"the program itself {megabytes(PROGRAM_BYTES)}")
    return Need(weights + CPU_SLACK * graphs + vectors + PROGRAM_BYTES, " + ".join(parts))


def _step_tokens(config: TrainingConfig) -> int:
    return config.queries_per_step * (2 + config.negatives_per_query) * config.max_tokens


def _graphs(size: ModelSize, config: TrainingConfig, hardware: Hardware, free: int) -> int:
    per_token = size.graph_bytes_per_token(config.max_tokens, WEIGHT_BYTES[hardware.dtype])
    step, micro = _step_tokens(config) * per_token, max(config.max_tokens, config.micro_batch_tokens) * per_token
    side_by_side = max(1, min(hardware.threads, int(free / 2 / micro)))
    return max(min(step, int(config.graph_memory_mb * 2**20)), min(step, side_by_side * micro))


def _graphs_on_gpu(size: ModelSize, config: TrainingConfig, weight: int, free: int) -> int:
    plain, thrifty = (size.graph_bytes_per_token(config.max_tokens, weight, on) for on in (False, True))
    half = max(0, free // 2)
    least = max(config.max_tokens, MIN_CUDA_SCALE * config.micro_batch_tokens)
    checkpointing = config.gradient_checkpointing
    per_token = thrifty if checkpointing == "on" or (checkpointing == "auto" and least * plain > half) else plain
    tokens = max(least, min(CUDA_SCALE * config.micro_batch_tokens, half // per_token))
    step = _step_tokens(config) * per_token
    kept = min(CUDA_SCALE * int(config.graph_memory_mb * 2**20), half)
    return max(min(step, kept), min(step, tokens * per_token))


def disk_need(size: ModelSize, config: TrainingConfig, settings: Settings, chunks: int, copied: int) -> Need:
    """Disk space that a whole run from the beginning takes up at most, beside what is there.

    `copied`: bytes of the database and the BM25 index, of which a second copy is made.
    """
    encoders = 2 + len(settings.evaluation.interpolation_weights)
    cached = encoders * chunks * (2 * size.width + 32)
    index = chunks * (INDEX_BYTES[settings.vectors.dtype] * size.width + LINK_BYTES)
    queries = min(settings.queries.max_queries, chunks * settings.queries.per_chunk)
    rankings = queries * min(settings.ranking.k, chunks) * 12
    adapter = 4 * size.adapter_parameters(config.lora_rank)
    adapters = ADAPTERS_AT_ONCE * (2 if config.method == "PT-FT" else 1)
    parts = [
        f"vectors of {encoders} encoders that are compared: {encoders} × {chunks:,} chunks × ({size.width} dimensions × "
        f"2 bytes + 32) = {megabytes(cached)}",
        f"vector index {chunks:,} × ({size.width} × {INDEX_BYTES[settings.vectors.dtype]} bytes + {LINK_BYTES}) = "
        f"{megabytes(index)}",
        f"rankings {queries:,} queries × {min(settings.ranking.k, chunks):,} × 12 bytes = {megabytes(rankings)}",
        f"adapter and checkpoints {adapters} × {megabytes(adapter)}",
        f"copies of the database and the BM25 index {megabytes(copied)}",
    ]
    return Need(cached + index + rankings + adapters * adapter + copied, " + ".join(parts))
