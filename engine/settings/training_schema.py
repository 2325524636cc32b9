"""Section [training] of project.toml."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from engine.settings.section import MAX_WHOLE_NUMBER, Preset, Section


class TrainingSettings(Section):
    """Values that are left out come from the preset."""

    preset: Preset = Field(
        default="standard",
        description=(
            "quick, standard, paper (BMEmbed as published for MiniLM; for larger models it took training.steps = 1000), or cl "
            "(contrastive learning, its baseline)"
        ),
    )
    objective: (
        Literal["mixed", "shared_listnet", "listnet", "listmle", "infonce", "triplet", "plackett_luce"] | None
    ) = Field(
        default=None,
        description=(
            "loss: over all chunks of the batch, shared_listnet (the teacher's distribution), infonce (the evidence "
            "chunk), or mixed (both); on lists of one chunk per rank interval, listnet or listmle; on the evidence chunk "
            "and the query's own negatives, triplet or plackett_luce"
        ),
    )
    teacher: Literal["auto", "bm25", "mixture", "rrf", "cross-encoder"] | None = Field(
        default=None,
        description=(
            "what the losses on lists learn from: BM25, a mixture of BM25 and the base encoder, reciprocal rank fusion "
            "(rrf) of both, or a cross-encoder; auto is mixture for mixed and shared_listnet, else bm25"
        ),
    )
    cross_encoder: str = Field(
        default="",
        description="folder of the teacher cross-encoder; a relative one lies in the project folder; slow without a GPU",
    )
    query_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="share of the training queries that are learnt from, the same with every run",
    )
    steps: int | None = Field(default=None, ge=1, le=MAX_WHOLE_NUMBER, description="training steps, at most")
    max_tokens: int | None = Field(
        default=None,
        ge=16,
        le=32768,
        description="tokens of a text in training, longer ones are cut; left out: encoder.max_tokens, with preset quick 128",
    )
    queries_per_step: int | None = Field(default=None, ge=1, le=4096, description="queries per step")
    negatives_per_query: int | None = Field(default=None, ge=0, le=64, description="BM25 negatives added per query")
    shared_chunks: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="random chunks that join each step's; cheap where adapter_scope is queries",
    )
    adapter_scope: Literal["both", "queries", "both-then-queries"] | None = Field(
        default=None,
        description=(
            "what the adapter acts on; left out: queries alone where they are built from sentences, or, where the texts are much "
            "alike, both; else both, and then queries alone"
        ),
    )
    query_steps: int | None = Field(
        default=None,
        ge=1,
        le=MAX_WHOLE_NUMBER,
        description="steps for queries alone where adapter_scope is both-then-queries",
    )
    query_learning_rate: float | None = Field(
        default=None, gt=0, le=0.1, description="peak learning rate of the steps for queries alone"
    )
    learning_rate: float | None = Field(default=None, gt=0, le=0.1, description="peak learning rate of AdamW")
    teacher_temperature: float | None = Field(
        default=None, gt=0, description="alpha: smaller makes the distribution of BM25, rrf or a cross-encoder sharper"
    )
    target: Literal["fixed", "entropy"] | None = Field(
        default=None, description="fixed alpha, or alpha per query for a set entropy"
    )
    target_entropy: float | None = Field(
        default=None, gt=0, description="entropy of the target in nats, where target is entropy"
    )
    student_temperature: float | None = Field(default=None, ge=1e-4, le=100, description="tau of the student's softmax")
    infonce_weight: float | None = Field(default=None, ge=0, le=1, description="share of InfoNCE in the mixed loss")
    teacher_bm25_weight: float | None = Field(default=None, ge=0, le=1, description="share of BM25 in the mixture")
    triplet_margin: float | None = Field(default=None, ge=0, le=2, description="margin of the triplet loss, in cosine")
    label_smoothing: float | None = Field(default=None, ge=0, le=0.5, description="label smoothing of plackett_luce")
    refresh_every: int | None = Field(
        default=None,
        ge=0,
        le=MAX_WHOLE_NUMBER,
        description="steps after which the model's own hard negatives are mined; 0: never",
    )
    mined_per_query: int | None = Field(
        default=None, ge=1, le=1000, description="the model's best chunks that then join a query's negatives"
    )
    lora_rank: int | None = Field(default=None, ge=1, le=512, description="rank of the LoRA adapter")
    lora_alpha: float | None = Field(default=None, gt=0, description="scale of the LoRA adapter")
    lora_dropout: float | None = Field(default=None, ge=0, lt=1, description="dropout on the LoRA branch")
    eval_every: int | None = Field(default=None, ge=1, le=MAX_WHOLE_NUMBER, description="steps between held-out checks")
    patience: int | None = Field(
        default=None, ge=1, le=MAX_WHOLE_NUMBER, description="held-out checks without gain before training stops"
    )
    checkpoint_every: int | None = Field(
        default=None, ge=1, le=MAX_WHOLE_NUMBER, description="steps between checkpoints"
    )
    warmup: float | None = Field(default=None, ge=0, le=1, description="share of the steps with a rising learning rate")
    weight_decay: float | None = Field(default=None, ge=0, le=1, description="weight decay of AdamW")
    clip_norm: float | None = Field(default=None, gt=0, description="maximum gradient norm")
    model_dropout: bool | None = Field(default=None, description="whether the model's own dropout is on; slow on a CPU")
    false_negatives: Literal["keep", "drop", "relabel"] | None = Field(
        default=None,
        description=(
            "negatives that the teacher puts above the evidence chunk: kept, left out (drop), or made positives (relabel)"
        ),
    )
    heldout_queries: int | None = Field(
        default=None, ge=1, le=MAX_WHOLE_NUMBER, description="validation queries of a check, at most"
    )
    heldout_pool: int | None = Field(
        default=None, ge=10, le=MAX_WHOLE_NUMBER, description="chunks that a check ranks, at most"
    )
    micro_batch_tokens: int | None = Field(
        default=None, ge=1, le=MAX_WHOLE_NUMBER, description="tokens, padding included, of a micro-batch"
    )
    graph_memory_mb: float | None = Field(
        default=None, ge=0, le=MAX_WHOLE_NUMBER, description="memory for graphs above which texts run twice"
    )
    gradient_checkpointing: Literal["auto", "on", "off"] | None = Field(
        default=None, description="computes every block twice, to train large models in little memory"
    )
    compile: Literal["auto", "on", "off"] | None = Field(default=None, description="compiles the model, on a GPU only")
    quantisation: Literal["none", "4-bit"] | None = Field(
        default=None, description="4-bit: frozen weights in a quarter of the memory; wants a CUDA GPU and bitsandbytes"
    )
    method: Literal["FT", "PT", "PT-FT"] | None = Field(
        default=None,
        description="fine-tuning on queries (FT), pre-training on masked words of the corpus (PT), or first PT, then FT",
    )
    pretrain_steps: int | None = Field(default=None, ge=1, le=MAX_WHOLE_NUMBER, description="steps of pre-training")
    pretrain_chunks_per_step: int | None = Field(
        default=None, ge=1, le=4096, description="chunks per step of pre-training"
    )
    pretrain_learning_rate: float | None = Field(
        default=None, gt=0, le=0.1, description="peak learning rate of pre-training"
    )
    mask_share: float | None = Field(
        default=None, ge=0.01, le=0.9, description="share of the tokens that pre-training hides"
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of every random choice in training")

    def overrides(self) -> dict[str, Any]:
        """The values of the recipe that the user set: neither the preset's name nor how many queries it is given."""
        left_out = {"preset", "query_share"}
        return {key: value for key, value in self.model_dump(exclude=left_out).items() if value not in (None, "")}
