"""The numbers of the training recipe, and the named recipes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.core.errors import SettingsError
from engine.settings.training_schema import (
    AdapterScope,
    Augmentation,
    FalseNegatives,
    Keep,
    Method,
    Objective,
    SimilarityName,
    Target,
    Teacher,
    Weights,
    Wish,
)

SHARED_CHUNKS = 8192
"""Random chunks of a step if only queries are trained: the chunks' vectors cost nothing then."""
ALL_WEIGHTS_RATE = 2e-5
"""Peak learning rate for all weights; LoRA layers, which start at 0, take 50 times as much."""
CUDA_SCALE = 32
"""Factor on the CPU's micro-batch and graph memory on a GPU."""
CPU_SLACK = 3
"""Measured bytes that the allocator holds for graphs of changing sizes, per byte of the largest."""
MIN_CUDA_SCALE = 4
"""Minimum factor on the CPU's micro-batch on a GPU."""


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """A training recipe; METHODS.md §1 to §5 have the formulas.

    engine/settings/training_schema.py describes each number.
    """

    method: Method = "FT"
    weights: Weights = "adapter"
    """With `all`, the transformer has no LoRA layers, and all of its weights are trained."""
    adapter_scope: AdapterScope = "both"
    """With `queries`, chunks keep the untouched encoder's vectors: no step encodes any."""
    augmentation: Augmentation | None = None
    """How a small model is joined with a black box; only the small model is trained."""

    # Objectives over all chunks of the batch: `mixed` is (1 − w)·KL to the teacher + w·InfoNCE, w =
    # `infonce_weight`; `infonce` is its InfoNCE alone (CL of METHODS.md §1). Over ready-made lists,
    # or all chunks of the batch if the data has none: `listnet` and `listmle`. Over the evidence
    # chunk and the query's own negatives: `triplet` and `plackett_luce`.
    objective: Objective = "mixed"
    teacher: Teacher = "auto"
    """`auto` is `mixture` for the objective `mixed`, and `bm25` for the others."""
    cross_encoder: str = ""
    """Folder or name of the cross-encoder that teaches."""
    teacher_candidates: int = 8
    """A cross-encoder's list: the evidence chunk, so many of BM25, so many of the base encoder."""
    teacher_temperature: float = 2.0
    target: Target = "fixed"
    target_entropy: float = 1.0
    student_temperature: float = 0.05
    infonce_weight: float = 0.3
    teacher_bm25_weight: float = 0.5
    triplet_margin: float = 0.2
    label_smoothing: float = 0.1
    in_batch: bool = False
    """Whether `plackett_luce` compares a query with all chunks of the batch."""
    false_negatives: FalseNegatives = "keep"
    """Whether chunks that the teacher puts above the evidence chunk stay negatives, are left out
    (`drop`), or count as positives, too (`relabel`)."""

    similarity: SimilarityName = "cosine"
    """With `lorentz` each loss is one of −d_L, plus `entailment_weight` · entailment."""
    curvature: float = 1.0
    """c of a hyperbolic space of curvature −c."""
    entailment_weight: float = 0.1

    steps: int = 200
    epochs: int = 0
    """Above 0, it decides `steps`, `eval_every` and `checkpoint_every`."""
    queries_per_step: int = 64
    """Number of queries, or of ready-made lists."""
    everyday_share: float | None = None
    """Share of everyday queries in a step; None: their share of the data."""
    negatives_per_query: int = 1
    negative_ranks: tuple[int, int] = (3, 40)
    """BM25's ranks [from, to), counted from 0, from which negatives are drawn."""
    shared_chunks: int = 0
    """Number of random chunks that are added to a step, for all of its queries."""
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
    """Number of steps between held-out checks; 0: no checks."""
    patience: int = 3
    """Number of checks without a gain after which training stops."""
    keep: Keep = "best"
    """With `last`, all steps are made and the last one is the result, whatever the checks say."""
    heldout_queries: int = 300
    heldout_pool: int = 1500
    checkpoint_every: int = 50
    seed: int = 0

    micro_batch_tokens: int = 1024
    """On a GPU up to `CUDA_SCALE` times as many."""
    graph_memory_mb: float | None = None
    """None: a share of the free memory. On a GPU up to `CUDA_SCALE` times as much."""
    gradient_checkpointing: Wish = "auto"

    pretrain_steps: int = 200
    pretrain_chunks_per_step: int = 32
    pretrain_learning_rate: float = 5e-4
    mask_share: float = 0.15
    pretrain_weights: Weights = "adapter"

    def __post_init__(self) -> None:
        """Raise SettingsError for values that do not go together.

        engine/settings/training_schema.py has the range of each.
        """
        if self.uses_own_negatives and self.negatives_per_query == 0:
            raise SettingsError(
                "The training setting negatives_per_query = 0 cannot be used.",
                f"It has to be 1 or more, because the loss '{self.objective}' lives on them.",
                "Correct it in project.toml and run again.",
                code="training-setting-invalid",
            )
        if self.adapter_scope == "queries" and self.method != "FT":
            raise SettingsError(
                "An adapter for queries alone cannot be trained like this.",
                "Pre-training changes the chunks' vectors, which training.adapter_scope = 'queries'"
                " keeps.",
                "Set training.adapter_scope to both, or training.method to FT.",
                code="training-settings-conflict",
            )
        if self.adapter_scope == "queries" and self.augmentation:
            raise SettingsError(
                "An adapter of encoder.small_model cannot be trained for queries alone.",
                "Chunks have its vectors as well.",
                "Leave training.adapter_scope out.",
                code="training-settings-conflict",
            )
        if self.weights == "all" and self.pretrain_weights == "adapter" and self.method != "FT":
            raise SettingsError(
                "A LoRA adapter cannot be pre-trained where all weights are fine-tuned.",
                "With training.weights = 'all' the model has no LoRA layers.",
                "Leave training.pretrain_weights out, or set training.weights to adapter.",
                code="training-settings-conflict",
            )
        moves_one_side = self.adapter_scope == "queries" or self.method == "PT"
        if self.similarity == "lorentz" and (moves_one_side or self.augmentation):
            raise SettingsError(
                "A hyperbolic encoder cannot be trained like this.",
                "Queries and chunks both move, by a loss on pairs of them: training.adapter_scope ="
                " 'queries' keeps the chunks', pre-training alone has no pairs, and vectors joined"
                " to a black box's have no place of their own.",
                "Set training.adapter_scope to both and training.method to FT or PT-FT, or"
                " training.similarity to cosine.",
                code="training-settings-conflict",
            )
        if self.teacher == "cross-encoder" and not self.cross_encoder:
            raise SettingsError(
                "The teacher cross-encoder needs a model.",
                "Neither training.cross_encoder nor search.reranker names one on this machine.",
                "Set training.cross_encoder to a cross-encoder's folder, or to the name of a"
                " reranker from 'engine models'.",
                code="cross-encoder-not-chosen",
            )

    @property
    def has_dropout(self) -> bool:
        """Whether a step draws random numbers for dropout."""
        return self.model_dropout or (self.weights == "adapter" and self.lora_dropout > 0)

    @property
    def trains_all_weights(self) -> bool:
        """Whether all weights are trained, by fine-tuning or by pre-training."""
        return self.weights == "all" or (self.method != "FT" and self.pretrain_weights == "all")

    @property
    def uses_lists(self) -> bool:
        """Whether a step takes ready-made lists, one chunk per rank interval."""
        return self.objective in ("listnet", "listmle")

    @property
    def uses_candidates(self) -> bool:
        """Whether a list is what BM25 and the encoder find, scored by a cross-encoder."""
        return self.uses_lists and self.used_teacher == "cross-encoder"

    @property
    def list_width(self) -> int:
        """The maximum number of chunks in a list of candidates."""
        return 1 + 2 * self.teacher_candidates

    @property
    def uses_own_negatives(self) -> bool:
        """Whether a query is only compared with its own negatives, not all chunks of the batch."""
        if self.objective == "plackett_luce":
            return not self.in_batch
        return self.objective == "triplet"

    @property
    def needs_teacher(self) -> bool:
        """Whether the loss depends on a teacher."""
        on_lists = self.objective == "mixed" or self.uses_lists
        return self.method != "PT" and (on_lists or self.false_negatives != "keep")

    @property
    def used_teacher(self) -> Teacher:
        """The teacher, `auto` resolved; `bm25`, which is free, if the loss does not need one."""
        if not self.needs_teacher:
            return "bm25"
        if self.teacher != "auto":
            return self.teacher
        return "mixture" if self.objective == "mixed" else "bm25"

    @property
    def needs_vectors(self) -> bool:
        """Whether training uses the untouched encoder's vectors.

        It does for its teacher, to find candidates, as fixed vectors of chunks, or as a black
        box's.
        """
        by_teacher = self.needs_base or self.uses_candidates
        return by_teacher or self.adapter_scope == "queries" or self.augmentation is not None

    @property
    def needs_base(self) -> bool:
        """Whether the teacher uses the untouched encoder's cosine."""
        return self.used_teacher == "mixture" and self.teacher_bm25_weight < 1

    @property
    def compares_all(self) -> bool:
        """Whether a query is compared with every chunk of a step, so more of them teach more."""
        over_batch = self.objective in ("mixed", "infonce")
        if self.objective == "plackett_luce":
            over_batch = self.in_batch
        return over_batch and self.used_teacher != "cross-encoder"

    def numbers(self) -> dict[str, Any]:
        """Return all numbers that a training depends on, by name."""
        numbers = asdict(self)
        if not self.uses_candidates:
            del numbers["teacher_candidates"]
        return numbers


# METHODS.md §1: BMEmbed as published, for MiniLM-sized models.
_PAPER = TrainingConfig(
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
    "paper": _PAPER,
    # METHODS.md §1: the baseline that BMEmbed is compared with, contrastive learning, trained as
    # the former is.
    "cl": replace(_PAPER, objective="infonce", queries_per_step=16),
    # METHODS.md §2: the batch is the sample of candidates; it ends after four epochs without gain.
    # At the rate of the others the small model is nothing by itself after ten steps
    # (docs/log/training.md, "Mafin").
    "mafin": TrainingConfig(
        objective="plackett_luce",
        in_batch=True,
        queries_per_step=32,
        negatives_per_query=0,
        epochs=20,
        patience=4,
        learning_rate=1e-4,
    ),
    # METHODS.md §4: each of its encoders is trained like this, the hyperbolic one with similarity
    # lorentz. Without smoothing the loss is InfoNCE over the query's own list: its chunk and five
    # negatives.
    "pipelines": TrainingConfig(
        objective="plackett_luce",
        label_smoothing=0.0,
        queries_per_step=32,
        negatives_per_query=5,
        epochs=3,
    ),
}

# Scores of rerankers differ in scale, so each query's target has the same entropy instead. A list
# has up to 17 chunks, so that 8 of them cost as much as the 64 pairs of another step.
LISTWISE: dict[str, Any] = {
    "objective": "listnet",
    "target": "entropy",
    "queries_per_step": 8,
    "negatives_per_query": 0,
}
"""Changes of a preset for a cross-encoder that teaches, if project.toml names no loss."""

# The chunks of a step's other queries are the negatives; BM25's own would double what a step
# encodes (docs/log/training.md, "Model-written and everyday queries: the recipe").
WRITTEN_QUERIES: dict[str, dict[str, Any]] = {
    "quick": {"objective": "infonce", "negatives_per_query": 0},
    "standard": {
        "objective": "infonce",
        "negatives_per_query": 0,
        "steps": 60,
        "queries_per_step": 32,
        "max_tokens": 128,
        "eval_every": 20,
        "checkpoint_every": 20,
    },
}
"""Changes of a preset for training queries that a person or a language model wrote."""
