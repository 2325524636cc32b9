"""Every number of the training recipe, and the named recipes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.errors import SettingsError

Objective = Literal["mixed", "listnet", "infonce"]
Target = Literal["fixed", "entropy"]


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One training recipe.

    `mixed` is (1 − w)·KL to the teacher + w·InfoNCE, w = `infonce_weight`, over all chunks of the batch. The teacher of
    a pair (q, c) is b·BM25/α + (1 − b)·20·base cosine, b = `teacher_bm25_weight`, α = `teacher_temperature` (on
    tantivy's BM25 scale). `listnet` is METHODS.md §1 on ready-made lists, or on all chunks of the batch where the data
    has none; `queries_per_step` counts lists there. `negative_ranks` are BM25 ranks [from, to), from 0. `eval_every` 0
    turns the held-out checks off; `patience` counts checks without gain. A step whose graphs fit in `graph_memory_mb`
    runs each text once, others twice (GradCache). On a GPU both memory settings count 32-fold.
    """

    objective: Objective = "mixed"
    teacher_temperature: float = 2.0
    target: Target = "fixed"
    target_entropy: float = 1.0
    student_temperature: float = 0.05
    infonce_weight: float = 0.3
    teacher_bm25_weight: float = 0.5
    mask_false_negatives: bool = False
    steps: int = 200
    queries_per_step: int = 64
    negatives_per_query: int = 1
    negative_ranks: tuple[int, int] = (3, 40)
    learning_rate: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.0
    model_dropout: bool = False
    max_tokens: int = 256
    eval_every: int = 50
    patience: int = 3
    heldout_queries: int = 300
    heldout_pool: int = 1500
    checkpoint_every: int = 50
    seed: int = 0
    micro_batch_tokens: int = 1024
    graph_memory_mb: float = 512

    def __post_init__(self) -> None:
        """Raises SettingsError for a value outside its range."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not (low <= value <= high):
                raise _outside(name, value, f"between {low:g} and {high:g}")
        first, last = self.negative_ranks
        if not 0 <= first < last:
            raise _outside("negative_ranks", list(self.negative_ranks), "two ranks, the first below the second")

    def with_overrides(self, values: dict[str, Any]) -> TrainingConfig:
        """A copy with the given values. Raises SettingsError for a value outside its range."""
        return replace(self, **values)


_TINY = 1e-9
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("teacher_temperature", _TINY, math.inf),
    ("target_entropy", _TINY, math.inf),
    ("student_temperature", 1e-4, 100),
    ("infonce_weight", 0, 1),
    ("teacher_bm25_weight", 0, 1),
    ("steps", 1, 10_000_000),
    ("queries_per_step", 1, 4096),
    ("negatives_per_query", 0, 64),
    ("learning_rate", _TINY, 1),
    ("warmup", 0, 1),
    ("weight_decay", 0, 1),
    ("clip_norm", _TINY, math.inf),
    ("lora_rank", 1, 512),
    ("lora_alpha", _TINY, math.inf),
    ("lora_dropout", 0, 0.99),
    ("max_tokens", 8, 1_000_000),
    ("eval_every", 0, 10_000_000),
    ("patience", 1, 10_000_000),
    ("heldout_queries", 1, 1_000_000),
    ("heldout_pool", 10, 10_000_000),
    ("checkpoint_every", 1, 10_000_000),
    ("seed", 0, 2**63 - 1),
    ("micro_batch_tokens", 1, 100_000_000),
    ("graph_memory_mb", 0, 10_000_000),
)


def _outside(name: str, value: object, want: str) -> SettingsError:
    return SettingsError(
        f"The training setting {name} = {value} cannot be used.",
        f"It has to be {want}.",
        "Correct it in project.toml and run again.",
    )


PRESETS: dict[str, TrainingConfig] = {
    # About a minute on two cores for a small corpus.
    "quick": TrainingConfig(
        steps=40,
        queries_per_step=24,
        max_tokens=128,
        eval_every=20,
        heldout_queries=100,
        heldout_pool=400,
        checkpoint_every=20,
    ),
    "standard": TrainingConfig(),
    # METHODS.md §1: BMEmbed as published, for MiniLM-sized models.
    "paper": TrainingConfig(
        objective="listnet",
        teacher_temperature=2.0,
        student_temperature=0.05,
        steps=500,
        queries_per_step=8,
        negatives_per_query=0,
        learning_rate=2e-5,
        lora_dropout=0.1,
        model_dropout=True,
        eval_every=100,
        patience=5,
        checkpoint_every=100,
    ),
}
