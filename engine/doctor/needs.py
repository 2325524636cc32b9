"""What a run of a project needs of memory and disk: estimates, in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.settings.schema import Settings
from engine.training.config import CPU_SLACK, TrainingConfig

if TYPE_CHECKING:
    from engine.encoders.hardware import Hardware
    from engine.encoders.model_size import ModelSize

PROGRAM_BYTES = 500_000_000  # measured: Python with torch, transformers and peft, before a model is loaded
LINK_BYTES = 160  # an id, and, measured, what usearch's graph of a large index adds to its copy of a vector in int8
WEIGHT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
INDEX_BYTES = {"f32": 4, "f16": 2, "i8": 1}
QUERY_ENCODERS = 2  # in float32: that of the index, and of the one that takes its place
ADAPTERS_AT_ONCE = (
    14  # the adapter, its copy, and three checkpoints of four: weights, the best ones, AdamW's two moments
)


def training_need(size: ModelSize, config: TrainingConfig, hardware: Hardware, chunks: int, free: int) -> int:
    """Memory of the stage that takes most, on the device that it runs on. `free`: bytes that are free there; with 0 it is the least
    that the stage needs.

    A step's graphs are kept as far as `graph_memory_mb` allows; beyond it, those of the micro-batches that run side by side. On a
    GPU both have what the weights leave free.
    """
    on_gpu, weight = hardware.device != "cpu", WEIGHT_BYTES[hardware.dtype]
    weights = size.parameters * weight
    graphs = _graphs(size, config, hardware, max(0, free - weights) if on_gpu else free)
    if on_gpu:
        return weights + graphs
    vectors = chunks * size.width * 4
    return weights + CPU_SLACK * graphs + vectors + PROGRAM_BYTES


@dataclass(slots=True)
class _Unloaded:
    """A model as the plan of a training sees it."""

    size: ModelSize
    weight: int
    has_dropout: bool

    def bytes_per_token(self, longest: int, *, checkpointing: bool | None = None) -> float:
        return self.size.graph_bytes_per_token(longest, self.weight, bool(checkpointing))


def _graphs(size: ModelSize, config: TrainingConfig, hardware: Hardware, free: int) -> int:
    """Bytes of what a step holds at once, as a training with so many bytes `free` would plan it."""
    from engine.training.compute.plan import Room, make_plan
    from engine.training.compute.workers import choose_workers

    model = _Unloaded(size, WEIGHT_BYTES[hardware.dtype], config.model_dropout or config.lora_dropout > 0)
    plan = make_plan(model, config, hardware, Room(free))
    per_token = model.bytes_per_token(config.max_tokens, checkpointing=plan.checkpointing)
    step = config.queries_per_step * (2 + config.negatives_per_query) * config.max_tokens * per_token
    micro_batch = max(config.max_tokens, plan.micro_batch_tokens) * per_token
    side_by_side = choose_workers(model, config, hardware, free)[0] * micro_batch
    return int(min(step, max(plan.graph_bytes, side_by_side)))


def disk_need(size: ModelSize, config: TrainingConfig, settings: Settings, chunks: int, copied: int) -> int:
    """Disk space that a whole run from the beginning takes up at most, beside what is there.

    `copied`: bytes of the database and the BM25 index, of which a second copy is made.
    """
    encoders = 2 + len(settings.evaluation.interpolation_weights)
    cached = encoders * chunks * (2 * size.width + 32)
    index = chunks * ((INDEX_BYTES[settings.vectors.dtype] + 1) * size.width + LINK_BYTES)
    queries = min(settings.queries.max_queries, chunks * settings.queries.per_chunk)
    rankings = queries * min(settings.ranking.k, chunks) * 12
    adapter = 4 * size.adapter_parameters(config.lora_rank)
    adapters = ADAPTERS_AT_ONCE * (2 if config.method == "PT-FT" else 1)
    return cached + index + QUERY_ENCODERS * 4 * size.parameters + rankings + adapters * adapter + copied
