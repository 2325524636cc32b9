"""Which numbers a training takes: those of the preset, what project.toml changes, and what fits the training queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import ModelError
from engine.queries.choosing import EXTRACTIVE, resolve_backend, with_backend
from engine.ranking.hit_at_1 import bm25_hit_at_1
from engine.training.config import CONTRASTIVE, PRESETS, SHARED_CHUNKS, WITHOUT_NEGATIVES, TrainingConfig
from engine.training.cross_encoder import CrossEncoderFolder, resolve_cross_encoder

if TYPE_CHECKING:
    from engine.project.stage import ProjectSnapshot
    from engine.settings.schema import Settings

_SHAPING = (
    "objective", "adapter_scope", "method", "teacher", "cross_encoder", "teacher_temperature", "teacher_bm25_weight", "target",
    "target_entropy", "infonce_weight", "refresh_every", "shared_chunks",
)  # fmt: skip
MIN_CONTRAST = 8
"""Of fewer queries in a step the chunks of the others are too few to contrast it with."""
HARD = 0.7
"""Below this share of training queries whose evidence chunk BM25 ranks first, extractive ones teach the chunks' vectors, too
(docs/log/training.md, "Extractive queries that BM25 does not solve")."""


def resolve_config(snapshot: ProjectSnapshot) -> TrainingConfig:
    """The preset, with what the user changed in project.toml, and what fits the queries that are there.

    Raises SettingsError for values that do not go together.
    """
    return config_of(with_backend(snapshot), bm25_hit_at_1(snapshot.store))


def config_of(settings: Settings, hit_at_1: float | None = None) -> TrainingConfig:
    """As `resolve_config`, without a look at what `queries.backend = "auto"` has chosen before.

    `hit_at_1`: what `bm25_hit_at_1` gives. Raises SettingsError for values that do not go together.
    """
    presets = CONTRASTIVE if is_contrastive(settings, hit_at_1) else PRESETS
    config = replace(presets[settings.training.preset], **settings.training.overrides())
    fitting: dict[str, Any] = {"max_tokens": _longest(settings, config)}
    if config.objective in WITHOUT_NEGATIVES:
        fitting["false_negatives"] = "keep"
    return replace(config, **fitting, **_scope(settings, config, hit_at_1)[0])


def is_contrastive(settings: Settings, hit_at_1: float | None) -> bool:
    """Whether extractive queries are hard enough for contrastive learning of queries and chunks, and nothing else is asked for."""
    if hit_at_1 is None or hit_at_1 >= HARD or resolve_backend(settings).backend not in EXTRACTIVE:
        return False
    chosen = settings.training
    if chosen.queries_per_step is not None and chosen.queries_per_step < MIN_CONTRAST:
        return False
    return chosen.preset in CONTRASTIVE and all(getattr(chosen, name) in (None, "") for name in _SHAPING)


def objective_reason(settings: Settings, hit_at_1: float | None) -> str:
    """Why the objective is what it is."""
    if settings.training.objective is not None:
        return "it is set in project.toml"
    if is_contrastive(settings, hit_at_1):
        return (
            f"for {hit_at_1:.0%} of the training queries BM25 ranks the right chunk first, less than {HARD:.0%}: the texts "
            "are much alike, and training learns which of them belongs to a query"
        )
    return f"preset '{settings.training.preset}'"


def scope_reason(settings: Settings, config: TrainingConfig, hit_at_1: float | None) -> str:
    """Why the adapter acts on what it acts on."""
    return _scope(settings, config, hit_at_1)[1]


def _longest(settings: Settings, config: TrainingConfig) -> int:
    """Tokens of a text in training: what the encoder reads, unless project.toml or a quick training wants less."""
    chosen = settings.training
    cut = chosen.max_tokens is not None or chosen.preset == "quick"
    return min(config.max_tokens, settings.encoder.max_tokens) if cut else settings.encoder.max_tokens


def _scope(settings: Settings, config: TrainingConfig, hit_at_1: float | None) -> tuple[dict[str, Any], str]:
    """What is set where project.toml leaves `training.adapter_scope` or `training.shared_chunks` out, with the reason.

    Extractive queries repeat their chunk's words. Where they move the chunks' vectors too, these come to stand for words that
    BM25 finds as well, and hybrid search loses (docs/log/training.md, "Queries alone"), unless BM25 fails on many of them.
    """
    chosen = settings.training
    joins = config.compares_all
    shared = {"shared_chunks": SHARED_CHUNKS} if joins and chosen.shared_chunks is None else {}
    if chosen.adapter_scope is not None:
        return shared if chosen.adapter_scope == "queries" else {}, "it is set in project.toml"
    if is_contrastive(settings, hit_at_1):
        return {"adapter_scope": "both"}, "where texts are much alike, their vectors have to differ, too"
    if not joins or chosen.preset in ("paper", "cl"):
        return {}, "the recipe trains queries and chunks"
    if config.method != "FT" or config.refresh_every:
        return {}, "pre-training and mined negatives need chunks that are trained, too"
    if resolve_backend(settings).backend not in EXTRACTIVE:
        why = "the queries are worded as questions, which teach the chunks' vectors, too; then they are compared with all chunks"
        return {"adapter_scope": "both-then-queries"}, why
    return {
        "adapter_scope": "queries",
        **shared,
    }, "extractive queries repeat their chunk's words and would harm the chunks' vectors"


def teacher_choice(config: TrainingConfig, m: int) -> tuple[str, str]:
    """The teacher's name, and the reason. `m`: chunks in a ready-made list."""
    if not config.needs_teacher:
        return "none", f"the loss '{config.objective}' learns from the evidence chunk alone"
    if config.teacher == "auto":
        return config.used_teacher, f"goes with the loss '{config.objective}'"
    if config.used_teacher != "cross-encoder":
        return config.used_teacher, "chosen in project.toml"
    queries, own = config.queries_per_step, 1 + config.negatives_per_query
    width = m if config.uses_lists else own if config.uses_own_negatives else queries * own + config.shared_chunks
    return config.used_teacher, f"chosen in project.toml; it scores up to {queries * width:,} pairs in a step"


def teacher_folder(snapshot: ProjectSnapshot, config: TrainingConfig) -> CrossEncoderFolder | None:
    """The checked folder of the teacher; a relative path lies in the project folder. Raises ModelError."""
    if config.used_teacher != "cross-encoder":
        return None
    try:
        path = (snapshot.project.path / Path(config.cross_encoder).expanduser()).absolute()
        return resolve_cross_encoder(path, snapshot.project.path / "cache")
    except (OSError, ValueError, RuntimeError) as error:  # a path that no folder can have, or a home that is not known
        raise ModelError(
            f"The cross-encoder {config.cross_encoder!r} cannot be used.", f"{error}.",
            "Set training.cross_encoder to the path of its folder.", code="cross-encoder-invalid",
        ) from None  # fmt: skip
