"""The numbers of a training: the preset's, project.toml's, and those that fit the queries."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.core.errors import ModelError
from engine.datasets.imports import graded_texts
from engine.endpoint.address import is_server
from engine.queries.choosing import EXTRACTIVE, resolve_backend, with_backend
from engine.reranking.folder import CrossEncoderFolder, find_cross_encoder
from engine.training.config import (
    ALL_WEIGHTS_RATE,
    LISTWISE,
    PRESETS,
    SHARED_CHUNKS,
    WRITTEN_QUERIES,
    TrainingConfig,
)

if TYPE_CHECKING:
    from engine.project.stage import ProjectSnapshot
    from engine.settings.schema import Settings
    from engine.settings.training_schema import AdapterScope, QuerySource
    from engine.training.data import TrainingData


def resolve_config(snapshot: ProjectSnapshot) -> TrainingConfig:
    """Return the preset with the changes of project.toml, and the steps for the existing queries.

    Raises SettingsError for values that do not go together.
    """
    config = config_of(with_backend(snapshot))
    if not config.epochs:
        return config
    return set_steps(
        config,
        snapshot.settings,
        _count_training_queries(snapshot),
    )


def is_of_source(
    text: str,
    source: QuerySource,
    graded: Collection[str],
) -> bool:
    """Return whether a training query is of `training.query_source`.

    `graded`: texts of the queries imported with a grade.
    """
    if source == "graded":
        return text in graded
    if source == "generated":
        return text not in graded
    return True


def graded_texts_if_selected(snapshot: ProjectSnapshot) -> frozenset[str]:
    """Return the texts of the queries imported with a grade; none if all sources are used."""
    if snapshot.settings.training.query_source == "all":
        return frozenset()
    return graded_texts(snapshot.project)


def _count_training_queries(snapshot: ProjectSnapshot) -> int:
    """Return the number of training queries of `training.query_source`."""
    source = snapshot.settings.training.query_source
    if source == "all":
        _by_kind, by_split = snapshot.store.query_counts()
        return by_split.get("train", 0)
    graded = graded_texts_if_selected(snapshot)
    queries = [query for query in snapshot.store.queries() if query.split == "train"]
    return sum(is_of_source(query.text, source, graded) for query in queries)


def set_steps(
    config: TrainingConfig,
    settings: Settings,
    count: int,
) -> TrainingConfig:
    """Return the config with the steps of its `epochs` over `count` queries, if it has epochs."""
    if not config.epochs:
        return config
    queries = round(count * settings.training.query_share)
    lists = 1
    if config.uses_lists and not config.uses_candidates:
        lists = settings.ranking.lists_per_query
    per_epoch = math.ceil(max(1, queries) * lists / config.queries_per_step)
    return replace(
        config,
        steps=config.epochs * per_epoch,
        eval_every=per_epoch,
        checkpoint_every=per_epoch,
    )


def limit_epochs(
    config: TrainingConfig,
    data: TrainingData,
    settings: Settings,
) -> TrainingConfig:
    """Return the config with fewer epochs if there are no held-out queries to stop the training.

    It then makes `patience` epochs, like a training whose checks show no gain. Epochs that
    project.toml sets stay.
    """
    if config.keep == "last" or not config.epochs or len(data.heldout_queries):
        return config
    if settings.training.epochs is not None:
        return config
    epochs = min(config.epochs, config.patience)
    return replace(config, steps=config.steps // config.epochs * epochs)


def config_of(settings: Settings) -> TrainingConfig:
    """Return the preset with the changes of the settings, and the numbers that follow from them.

    `resolve_config` also knows the project: the backend for which `auto` stands, and the number of
    queries. Raises SettingsError for values that do not go together.
    """
    preset = PRESETS[settings.training.preset]
    overrides = settings.training.overrides()
    if overrides.get("weights", preset.weights) == "all":
        overrides.setdefault("pretrain_weights", "all")
        overrides.setdefault("learning_rate", ALL_WEIGHTS_RATE)
    numbers = _numbers_for_written_queries(settings)
    if settings.training.teacher == "cross-encoder":
        overrides["cross_encoder"] = name_teacher(settings)
        numbers = {} if settings.training.objective else LISTWISE
    config = replace(preset, **{**numbers, **overrides})
    derived: dict[str, Any] = {"max_tokens": _max_tokens(settings, config), "augmentation": None}
    if settings.encoder.small_model:
        derived["augmentation"] = settings.training.augmentation or "mafin"
    # Lists follow the teacher in every chunk, so they have no false negatives.
    if config.uses_lists:
        derived["false_negatives"] = "keep"
    # LoRA layers take a higher rate than all weights.
    if config.pretrain_weights == "all" and settings.training.pretrain_learning_rate is None:
        derived["pretrain_learning_rate"] = config.pretrain_learning_rate / 10
    adapter_scope, _reason = choose_adapter_scope(settings, config)
    derived["adapter_scope"] = adapter_scope
    is_unset = settings.training.shared_chunks is None
    if adapter_scope == "queries" and config.compares_all and is_unset:
        derived["shared_chunks"] = SHARED_CHUNKS
    return replace(config, **derived)


def _numbers_for_written_queries(settings: Settings) -> dict[str, Any]:
    """Return the changes of `WRITTEN_QUERIES` to the preset; none if they do not apply.

    They are for queries that a person or a language model wrote, and do not apply if project.toml
    wants another loss, a teacher, or pre-training alone.
    """
    chosen = settings.training
    numbers = WRITTEN_QUERIES.get(chosen.preset)
    if numbers is None or chosen.objective not in (None, "infonce"):
        return {}
    # Pre-training alone learns from no query.
    if chosen.method == "PT":
        return {}
    if chosen.teacher not in (None, "auto"):
        return {}
    # These numbers were not measured with a black box or in hyperbolic space.
    if settings.encoder.small_model or chosen.similarity == "lorentz":
        return {}
    if resolve_backend(settings).backend in EXTRACTIVE:
        return {}
    return numbers


def name_teacher(settings: Settings) -> str:
    """Return the cross-encoder that may teach: training.cross_encoder, or else search.reranker.

    Empty if the reranker is a server, which would get all training queries and their passages.
    """
    if settings.training.cross_encoder:
        return settings.training.cross_encoder
    if is_server(settings.search.reranker):
        return ""
    return settings.search.reranker


def _max_tokens(settings: Settings, config: TrainingConfig) -> int:
    """Return the tokens of a text in training: the encoder's, unless the recipe wants fewer."""
    chosen = settings.training
    is_shorter = chosen.max_tokens is not None or chosen.preset == "quick"
    if is_shorter or _numbers_for_written_queries(settings):
        return min(config.max_tokens, settings.encoder.max_tokens)
    return settings.encoder.max_tokens


def choose_adapter_scope(settings: Settings, config: TrainingConfig) -> tuple[AdapterScope, str]:
    """Return what the adapter acts on, and why.

    Extractive queries repeat their chunk's words. If they move the chunks' vectors, too, these come
    to represent words that BM25 finds as well, and hybrid search loses (docs/log/training.md,
    "Queries alone").
    """
    chosen = settings.training
    if settings.encoder.small_model:
        return chosen.adapter_scope or "both", "chunks, too, have the small model's vectors"
    if chosen.adapter_scope is not None:
        return chosen.adapter_scope, "it is set in project.toml"
    compares = config.compares_all or config.uses_candidates
    if not compares or chosen.preset in ("paper", "cl", "pipelines"):
        return "both", "the recipe trains queries and chunks"
    if config.similarity == "lorentz":
        return "both", "in hyperbolic space queries and chunks have other places than before"
    if config.method != "FT":
        return "both", "pre-training needs chunks that are trained, too"
    if resolve_backend(settings).backend not in EXTRACTIVE:
        return "both", "the queries are worded as questions, which teach the chunks' vectors, too"
    reason = "extractive queries repeat their chunk's words and would harm the chunks' vectors"
    return "queries", reason


def teacher_choice(config: TrainingConfig, m: int) -> tuple[str, str]:
    """Return the teacher's name and the reason; `m`: the number of chunks in a sampled list."""
    if not config.needs_teacher:
        return "none", f"the loss '{config.objective}' learns from the evidence chunk alone"
    if config.teacher == "auto":
        return config.used_teacher, f"goes with the loss '{config.objective}'"
    if config.used_teacher != "cross-encoder":
        return config.used_teacher, "chosen in project.toml"
    queries = config.queries_per_step
    own_chunks = 1 + config.negatives_per_query
    chunks_per_query = queries * own_chunks + config.shared_chunks
    if config.uses_candidates:
        chunks_per_query = config.list_width
    elif config.uses_lists:
        chunks_per_query = m
    elif config.uses_own_negatives:
        chunks_per_query = own_chunks
    pairs = queries * chunks_per_query
    reason = f"chosen in project.toml; it scores up to {pairs:,} pairs in a step"
    return config.used_teacher, reason


def teacher_folder(snapshot: ProjectSnapshot, config: TrainingConfig) -> CrossEncoderFolder | None:
    """Return the checked folder of a cross-encoder that teaches, or None without one.

    A relative path starts at the project folder. Raises ModelError.
    """
    if config.used_teacher != "cross-encoder":
        return None
    # A folder may not be able to have this path, or the home folder may be unknown.
    try:
        return find_cross_encoder(snapshot.project.path, config.cross_encoder)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"The cross-encoder {config.cross_encoder!r} cannot be used.",
            f"{error}.",
            "Set training.cross_encoder to its folder, or to its name in 'engine models'.",
            code="cross-encoder-invalid",
        ) from None
