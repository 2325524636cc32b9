"""Section [training] of project.toml."""

from __future__ import annotations

from typing import Any, Literal

from engine.settings.section import MAX_WHOLE_NUMBER, Preset, Section, key

Objective = Literal["mixed", "shared_listnet", "listnet", "listmle", "infonce", "triplet", "plackett_luce"]
Teacher = Literal["auto", "bm25", "mixture", "rrf", "cross-encoder"]
Target = Literal["fixed", "entropy"]
Wish = Literal["auto", "on", "off"]
FalseNegatives = Literal["keep", "drop", "relabel"]
Method = Literal["FT", "PT", "PT-FT"]
Weights = Literal["adapter", "all"]
AdapterScope = Literal["both", "queries"]
Augmentation = Literal["mafin", "lambda-mafin"]
SimilarityName = Literal["cosine", "lorentz"]


class TrainingSettings(Section):
    """Values that are left out come from the preset."""

    preset: Preset = key(
        "standard",
        "quick, standard, paper (BMEmbed as published for MiniLM; for larger models it took training.steps = 1000), cl "
        "(contrastive learning, its baseline), mafin (for encoder.small_model, as published), or pipelines (as used for the "
        "encoders that are compared under noise)",
    )
    objective: Objective | None = key(
        None,
        "loss: over all chunks of the batch, shared_listnet (the teacher's distribution), infonce (the evidence "
        "chunk), or mixed (both); on lists of one chunk per rank interval, listnet or listmle; on the evidence chunk "
        "and the query's own negatives, triplet or plackett_luce",
    )
    teacher: Teacher | None = key(
        None,
        "what the losses on lists learn from: BM25, a mixture of BM25 and the base encoder, reciprocal rank fusion "
        "(rrf) of both, or a cross-encoder; auto is mixture for mixed and shared_listnet, otherwise bm25",
    )
    cross_encoder: str = key(
        "", "folder of the teacher cross-encoder; a relative path starts at the project folder; slow without a GPU"
    )
    query_share: float = key(
        1.0, "share of the training queries that training uses, the same ones in every run", gt=0, le=1
    )
    similarity: SimilarityName | None = key(
        None, "how the adapted encoder's vectors are compared: by cosine, or by distance in hyperbolic space (lorentz)"
    )
    curvature: float | None = key(None, "c of hyperbolic space, whose curvature is -c", ge=0.1, le=10)
    entailment_weight: float | None = key(
        None,
        "alpha: weight of the loss that puts chunks into the cones of their queries, with similarity lorentz",
        ge=0,
        le=1,
    )
    steps: int | None = key(None, "training steps, at most", ge=1, le=MAX_WHOLE_NUMBER)
    epochs: int | None = key(
        None,
        "most passes over the training queries, instead of training.steps; held-out checks, which training.patience counts, "
        "and checkpoints are then made once per pass; 0: training.steps counts",
        ge=0,
        le=10_000,
    )
    max_tokens: int | None = key(
        None,
        "tokens of a text in training, longer ones are cut; left out: encoder.max_tokens, with preset quick 128",
        ge=16,
        le=32768,
    )
    queries_per_step: int | None = key(None, "queries per step", ge=1, le=4096)
    negatives_per_query: int | None = key(None, "BM25 negatives added per query", ge=0, le=64)
    shared_chunks: int | None = key(
        None, "random chunks added to each step's; cheap if adapter_scope is queries", ge=0, le=1_000_000
    )
    adapter_scope: AdapterScope | None = key(
        None,
        "what the adapter acts on; left out: queries alone if they are extractive, otherwise both",
    )
    augmentation: Augmentation | None = key(
        None,
        "how the vectors of encoder.small_model are joined: at unit norm (mafin), or with learned lengths (lambda-mafin)",
    )
    learning_rate: float | None = key(None, "peak learning rate of AdamW", gt=0, le=0.1)
    teacher_temperature: float | None = key(
        None, "alpha: smaller makes the distribution of BM25, rrf or a cross-encoder sharper", gt=0
    )
    target: Target | None = key(None, "fixed alpha, or alpha per query for a set entropy")
    target_entropy: float | None = key(None, "entropy of the target in nats, if target is entropy", gt=0)
    student_temperature: float | None = key(None, "tau of the student's softmax", ge=1e-4, le=100)
    infonce_weight: float | None = key(None, "share of InfoNCE in the mixed loss", ge=0, le=1)
    teacher_bm25_weight: float | None = key(None, "share of BM25 in the mixture", ge=0, le=1)
    triplet_margin: float | None = key(None, "margin of the triplet loss, in cosine", ge=0, le=2)
    in_batch: bool | None = key(
        None, "whether plackett_luce compares a query with all chunks of a step, not only with its own negatives"
    )
    label_smoothing: float | None = key(None, "label smoothing of plackett_luce", ge=0, le=0.5)
    refresh_every: int | None = key(
        None, "steps after which the model's own hard negatives are mined; 0: never", ge=0, le=MAX_WHOLE_NUMBER
    )
    mined_per_query: int | None = key(
        None, "the model's best chunks that are then added to a query's negatives", ge=1, le=1000
    )
    lora_rank: int | None = key(None, "rank of the LoRA adapter", ge=1, le=512)
    lora_alpha: float | None = key(None, "scale of the LoRA adapter", gt=0)
    lora_dropout: float | None = key(None, "dropout on the LoRA branch", ge=0, lt=1)
    eval_every: int | None = key(None, "steps between held-out checks", ge=1, le=MAX_WHOLE_NUMBER)
    patience: int | None = key(None, "held-out checks without gain before training stops", ge=1, le=MAX_WHOLE_NUMBER)
    checkpoint_every: int | None = key(None, "steps between checkpoints", ge=1, le=MAX_WHOLE_NUMBER)
    warmup: float | None = key(None, "share of the steps with a rising learning rate", ge=0, le=1)
    weight_decay: float | None = key(None, "weight decay of AdamW", ge=0, le=1)
    clip_norm: float | None = key(None, "maximum gradient norm", gt=0)
    model_dropout: bool | None = key(None, "whether the model's own dropout is on; slow on a CPU")
    false_negatives: FalseNegatives | None = key(
        None,
        "negatives that the teacher ranks above the evidence chunk: kept (keep), left out (drop), or made positives (relabel)",
    )
    heldout_queries: int | None = key(None, "most validation queries in a check", ge=1, le=MAX_WHOLE_NUMBER)
    heldout_pool: int | None = key(None, "most chunks that a check ranks", ge=10, le=MAX_WHOLE_NUMBER)
    micro_batch_tokens: int | None = key(None, "tokens, padding included, of a micro-batch", ge=1, le=MAX_WHOLE_NUMBER)
    graph_memory_mb: float | None = key(
        None, "memory for graphs, above which texts are computed twice", ge=0, le=MAX_WHOLE_NUMBER
    )
    gradient_checkpointing: Wish | None = key(
        None, "whether to compute every block twice, which trains large models in little memory"
    )
    compile: Wish | None = key(None, "whether to compile the model, on a GPU only")
    method: Method | None = key(
        None, "fine-tuning on queries (FT), pre-training on masked words of the corpus (PT), or first PT, then FT"
    )
    pretrain_steps: int | None = key(None, "steps of pre-training", ge=1, le=MAX_WHOLE_NUMBER)
    pretrain_chunks_per_step: int | None = key(None, "chunks per step of pre-training", ge=1, le=4096)
    pretrain_learning_rate: float | None = key(None, "peak learning rate of pre-training", gt=0, le=0.1)
    pretrain_weights: Weights | None = key(
        None, "what pre-training trains: the LoRA adapter, or all of the model's weights"
    )
    mask_share: float | None = key(None, "share of the tokens that pre-training hides", ge=0.01, le=0.9)
    seed: int = key(0, "seed of every random choice in training", ge=0, lt=2**32)

    def overrides(self) -> dict[str, Any]:
        """The values of the recipe that the user set: neither the preset's name nor how many queries it is given."""
        left_out = {"preset", "query_share"}
        return {key: value for key, value in self.model_dump(exclude=left_out).items() if value not in (None, "")}
