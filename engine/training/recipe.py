"""Which numbers a training takes: those of the preset, what project.toml changes, and what fits
the training queries.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import ModelError
from engine.models.installed import find_installed_folder
from engine.queries.choosing import EXTRACTIVE, resolve_backend, with_backend
from engine.reranking.folder import CrossEncoderFolder, resolve_cross_encoder
from engine.training.config import (
    ALL_WEIGHTS_RATE,
    PRESETS,
    SHARED_CHUNKS,
    WRITTEN_QUERIES,
    TrainingConfig,
)

if TYPE_CHECKING:
    from engine.project.stage import ProjectSnapshot
    from engine.settings.schema import Settings
    from engine.training.data import TrainingData


def resolve_config(snapshot: ProjectSnapshot) -> TrainingConfig:
    """The preset, with what the user changed in project.toml, and what fits the queries that are
    there.

    Raises SettingsError for values that do not go together.
    """
    count = snapshot.store.query_counts()[1].get("train", 0)
    return over_queries(config_of(with_backend(snapshot)), snapshot.settings, count)


def over_queries(config: TrainingConfig, settings: Settings, count: int) -> TrainingConfig:
    """With the steps of its `epochs` over so many training queries; as it is where it counts
    none.
    """
    if not config.epochs:
        return config
    queries = round(count * settings.training.query_share)
    if config.uses_lists:
        lists = settings.ranking.lists_per_query
    else:
        lists = 1
    steps = math.ceil(max(1, queries) * lists / config.queries_per_step)
    return replace(config, steps=config.epochs * steps, eval_every=steps, checkpoint_every=steps)


def fitting_checks(
    config: TrainingConfig, data: TrainingData, settings: Settings
) -> TrainingConfig:
    """Where no held-out query can end a preset's epochs, as many as it makes without a gain:
    `patience`.
    """
    if (
        config.keep == "last"
        or not config.epochs
        or len(data.heldout_queries)
        or settings.training.epochs is not None
    ):
        return config
    return replace(
        config, steps=config.steps // config.epochs * min(config.epochs, config.patience)
    )


def config_of(settings: Settings) -> TrainingConfig:
    """As `resolve_config`, without a look at what `queries.backend = "auto"` has chosen before.

    Raises SettingsError for values that do not go together.
    """
    preset = PRESETS[settings.training.preset]
    overrides = settings.training.overrides()
    if overrides.get("weights", preset.weights) == "all":
        overrides.setdefault("pretrain_weights", "all")
        overrides.setdefault("learning_rate", ALL_WEIGHTS_RATE)
    config = replace(preset, **{**_numbers_for_written_queries(settings), **overrides})
    if settings.encoder.small_model:
        small = settings.training.augmentation or "mafin"
    else:
        small = None
    fitting: dict[str, Any] = {"max_tokens": _longest(settings, config), "augmentation": small}
    if config.uses_lists:  # which follow the teacher in every chunk: none is a false negative
        fitting["false_negatives"] = "keep"
    if config.pretrain_weights == "all" and settings.training.pretrain_learning_rate is None:
        fitting["pretrain_learning_rate"] = (
            config.pretrain_learning_rate / 10
        )  # LoRA layers take more
    return replace(config, **fitting, **_scope(settings, config)[0])


def _numbers_for_written_queries(settings: Settings) -> dict[str, Any]:
    """What a preset changes for queries worded as questions, unless project.toml wants another
    loss or a teacher.
    """
    chosen = settings.training
    numbers = WRITTEN_QUERIES.get(chosen.preset)
    if (
        numbers is None
        or chosen.objective not in (None, "infonce")
        or chosen.teacher not in (None, "auto")
    ):
        return {}
    # not measured beside a black box, nor in hyperbolic space
    if settings.encoder.small_model or chosen.similarity == "lorentz":
        return {}
    if resolve_backend(settings).backend in EXTRACTIVE:
        return {}
    return numbers


def scope_reason(settings: Settings, config: TrainingConfig) -> str:
    """Why the adapter acts on what it acts on."""
    return _scope(settings, config)[1]


def _longest(settings: Settings, config: TrainingConfig) -> int:
    """Tokens of a text in training: what the encoder reads, unless project.toml or a quick
    training wants less.
    """
    chosen = settings.training
    cut = (
        chosen.max_tokens is not None
        or chosen.preset == "quick"
        or _numbers_for_written_queries(settings)
    )
    if cut:
        return min(config.max_tokens, settings.encoder.max_tokens)
    return settings.encoder.max_tokens


def _scope(settings: Settings, config: TrainingConfig) -> tuple[dict[str, Any], str]:
    """What is set where project.toml leaves `training.adapter_scope` or `training.shared_chunks`
    out, with the reason.

    Extractive queries repeat their chunk's words. Where they move the chunks' vectors too, these
    come to stand for words that BM25 finds as well, and hybrid search loses (docs/log/training.md,
    "Queries alone").
    """
    chosen = settings.training
    joins = config.compares_all
    if joins and chosen.shared_chunks is None:
        shared = {"shared_chunks": SHARED_CHUNKS}
    else:
        shared = {}
    if settings.encoder.small_model:
        return (
            {} if chosen.adapter_scope else {"adapter_scope": "both"}
        ), "chunks, too, have the small model's vectors"
    if chosen.adapter_scope is not None:
        return shared if chosen.adapter_scope == "queries" else {}, "it is set in project.toml"
    if not joins or chosen.preset in ("paper", "cl", "pipelines"):
        return {}, "the recipe trains queries and chunks"
    if config.similarity == "lorentz":
        return {}, "in hyperbolic space queries and chunks have other places than before"
    if config.method != "FT":
        return {}, "pre-training needs chunks that are trained, too"
    if resolve_backend(settings).backend not in EXTRACTIVE:
        return {}, "the queries are worded as questions, which teach the chunks' vectors, too"
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
    queries = config.queries_per_step
    own = 1 + config.negatives_per_query
    if config.uses_lists:
        width = m
    elif config.uses_own_negatives:
        width = own
    else:
        width = queries * own + config.shared_chunks
    return (
        config.used_teacher,
        f"chosen in project.toml; it scores up to {queries * width:,} pairs in a step",
    )


def teacher_folder(snapshot: ProjectSnapshot, config: TrainingConfig) -> CrossEncoderFolder | None:
    """The checked folder of the teacher; a relative path lies in the project folder.

    Raises ModelError.
    """
    if config.used_teacher != "cross-encoder":
        return None
    try:
        path = (snapshot.project.path / Path(config.cross_encoder).expanduser()).absolute()
        if not path.is_dir():
            path = find_installed_folder(config.cross_encoder) or path
        return resolve_cross_encoder(path, snapshot.project.path / "cache")
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # a path that no folder can have, or a home that is not known
        raise ModelError(
            f"The cross-encoder {config.cross_encoder!r} cannot be used.",
            f"{error}.",
            "Set training.cross_encoder to the path of its folder.",
            code="cross-encoder-invalid",
        ) from None
