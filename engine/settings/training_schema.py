"""Section [training] of project.toml."""

from __future__ import annotations

from typing import Any, Literal

from engine.settings.section import MAX_WHOLE_NUMBER, Preset, Section, key

Objective = Literal["mixed", "listnet", "listmle", "infonce", "triplet", "plackett_luce"]
Teacher = Literal["auto", "bm25", "mixture", "cross-encoder"]
Target = Literal["fixed", "entropy"]
Wish = Literal["auto", "on", "off"]
FalseNegatives = Literal["keep", "drop", "relabel"]
Method = Literal["FT", "PT", "PT-FT"]
Weights = Literal["adapter", "all"]
Keep = Literal["best", "last"]
QuerySource = Literal["all", "graded", "generated"]
AdapterScope = Literal["both", "queries"]
Augmentation = Literal["mafin", "lambda-mafin"]
SimilarityName = Literal["cosine", "lorentz"]


class TrainingSettings(Section):
    """Training of the adapter. Unset values come from the preset."""

    preset: Preset = key(
        "standard",
        "training recipe: quick, standard, paper (BMEmbed as published), cl (its contrastive"
        " baseline), mafin (for encoder.small_model), pipelines (for the study of noise)",
        common=True,
    )
    objective: Objective | None = key(
        None,
        "loss over the batch: infonce, or mixed with listnet; over one chunk per rank interval:"
        " listnet, listmle; over the evidence chunk and negatives: triplet, plackett_luce",
    )
    teacher: Teacher | None = key(
        None,
        "what list losses learn from: bm25, mixture (BM25 and base encoder), cross-encoder (a"
        " reranker); auto: mixture for mixed, else bm25",
    )
    cross_encoder: str = key(
        "", "folder or name of the cross-encoder that teaches; empty: search.reranker"
    )
    teacher_candidates: int | None = key(
        None,
        "chunks of each query, first by BM25 and by the encoder, that a cross-encoder scores for"
        " listnet and listmle",
        ge=1,
        le=100,
    )
    query_share: float = key(
        1.0, "share of the training queries to use, the same ones in every run", gt=0, le=1
    )
    query_source: QuerySource = key(
        "all",
        "training queries to use: all, graded (imported with a grade), or generated (all others)",
    )
    everyday_share: float | None = key(
        None,
        "share of everyday queries among those of a step, if there are some; unset: as many as"
        " there are",
        ge=0,
        le=1,
    )
    similarity: SimilarityName | None = key(
        None, "compare adapted vectors by cosine or hyperbolic distance (lorentz)"
    )
    curvature: float | None = key(
        None, "c of hyperbolic space, whose curvature is -c", ge=0.1, le=10
    )
    entailment_weight: float | None = key(
        None,
        "alpha, weight of the loss that puts chunks into the cones of their queries (with lorentz)",
        ge=0,
        le=1,
    )
    steps: int | None = key(
        None,
        "maximum number of training steps",
        ge=1,
        le=MAX_WHOLE_NUMBER,
    )
    epochs: int | None = key(
        None,
        "maximum number of passes over the queries, each ended by a check; 0: use steps",
        ge=0,
        le=10_000,
    )
    max_tokens: int | None = key(
        None,
        "maximum tokens of a text; unset: encoder.max_tokens (preset quick: at most 128)",
        ge=16,
        le=32768,
    )
    queries_per_step: int | None = key(
        None,
        "queries per step",
        ge=1,
        le=4096,
    )
    negatives_per_query: int | None = key(
        None,
        "BM25 negatives added per query",
        ge=0,
        le=64,
    )
    shared_chunks: int | None = key(
        None,
        "random chunks added to each step; unset: 8192 if only queries are adapted, else 0",
        ge=0,
        le=1_000_000,
    )
    adapter_scope: AdapterScope | None = key(
        None,
        "what to adapt: queries, or queries and chunks (both); unset: queries if they are"
        " extractive, else both",
    )
    augmentation: Augmentation | None = key(
        None,
        "how to join the vectors of encoder.small_model: at unit norm (mafin), or at learned"
        " lengths",
    )
    weights: Weights | None = key(
        None, "what to train: a LoRA adapter, or all weights of the model"
    )
    learning_rate: float | None = key(
        None,
        "peak learning rate of AdamW; by default 2e-5 if all weights are trained",
        gt=0,
        le=0.1,
    )
    teacher_temperature: float | None = key(
        None, "alpha; smaller values sharpen the distribution of BM25 or a cross-encoder", gt=0
    )
    target: Target | None = key(None, "fixed alpha, or alpha per query for a given entropy")
    target_entropy: float | None = key(
        None,
        "entropy in nats, if target is entropy",
        gt=0,
    )
    student_temperature: float | None = key(
        None,
        "tau of the student's softmax",
        ge=1e-4,
        le=100,
    )
    infonce_weight: float | None = key(
        None,
        "share of InfoNCE in the mixed loss",
        ge=0,
        le=1,
    )
    teacher_bm25_weight: float | None = key(
        None,
        "share of BM25 in the mixture",
        ge=0,
        le=1,
    )
    triplet_margin: float | None = key(
        None,
        "margin of the triplet loss, in cosine",
        ge=0,
        le=2,
    )
    in_batch: bool | None = key(
        None, "plackett_luce: compare a query with all chunks of a step, not only its own"
    )
    label_smoothing: float | None = key(
        None,
        "label smoothing of plackett_luce",
        ge=0,
        le=0.5,
    )
    lora_rank: int | None = key(
        None,
        "rank of the LoRA adapter",
        ge=1,
        le=512,
    )
    lora_alpha: float | None = key(
        None,
        "scale (alpha) of the LoRA adapter",
        gt=0,
    )
    lora_dropout: float | None = key(
        None,
        "dropout of the LoRA adapter",
        ge=0,
        lt=1,
    )
    eval_every: int | None = key(
        None,
        "steps between held-out checks",
        ge=1,
        le=MAX_WHOLE_NUMBER,
    )
    patience: int | None = key(
        None, "held-out checks without gain before training stops", ge=1, le=MAX_WHOLE_NUMBER
    )
    checkpoint_every: int | None = key(
        None,
        "steps between checkpoints",
        ge=1,
        le=MAX_WHOLE_NUMBER,
    )
    warmup: float | None = key(
        None, "share of the steps in which the learning rate rises", ge=0, le=1
    )
    weight_decay: float | None = key(
        None,
        "weight decay of AdamW",
        ge=0,
        le=1,
    )
    clip_norm: float | None = key(
        None,
        "maximum gradient norm",
        gt=0,
    )
    model_dropout: bool | None = key(None, "use the model's own dropout; slow on a CPU")
    false_negatives: FalseNegatives | None = key(
        None,
        "negatives that the teacher ranks above the evidence: keep, drop, or relabel as positives",
    )
    heldout_queries: int | None = key(
        None, "maximum number of validation queries per check", ge=1, le=MAX_WHOLE_NUMBER
    )
    heldout_pool: int | None = key(
        None, "maximum number of chunks ranked per check", ge=10, le=MAX_WHOLE_NUMBER
    )
    micro_batch_tokens: int | None = key(
        None, "tokens per micro-batch, padding included", ge=1, le=MAX_WHOLE_NUMBER
    )
    graph_memory_mb: float | None = key(
        None,
        "MB for gradient graphs (unset: by free memory); above it, texts are encoded twice",
        ge=0,
        le=MAX_WHOLE_NUMBER,
    )
    gradient_checkpointing: Wish | None = key(
        None, "compute every block twice, to train large models in little memory"
    )
    keep: Keep | None = key(
        None,
        "the step to keep: best of the held-out checks, which also end the training early; or last,"
        " after all steps",
    )
    method: Method | None = key(
        None, "FT: fine-tune on queries; PT: pre-train on masked words; PT-FT: both"
    )
    pretrain_steps: int | None = key(
        None,
        "pre-training steps",
        ge=1,
        le=MAX_WHOLE_NUMBER,
    )
    pretrain_chunks_per_step: int | None = key(
        None, "chunks per step of pre-training", ge=1, le=4096
    )
    pretrain_learning_rate: float | None = key(
        None,
        "peak learning rate of pre-training; by default a tenth of this if all weights are trained",
        gt=0,
        le=0.1,
    )
    pretrain_weights: Weights | None = key(
        None,
        "what to pre-train: the LoRA adapter, or all weights of the model; unset: as"
        " training.weights",
    )
    mask_share: float | None = key(
        None, "share of the tokens that pre-training masks", ge=0.01, le=0.9
    )
    seed: int = key(
        0,
        "seed of all random choices in training",
        ge=0,
        lt=2**32,
    )

    def overrides(self) -> dict[str, Any]:
        """Return the values of the training recipe that the user set.

        The name of the preset and the selection of queries are not part of the recipe.
        """
        left_out = {"preset", "query_share", "query_source"}
        return {
            key: value
            for key, value in self.model_dump(exclude=left_out).items()
            if value not in (None, "")
        }
