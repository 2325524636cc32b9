"""Stage `train`: ranked lists → a LoRA adapter, checkpointed under `checkpoints/FINGERPRINT`."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import psutil

from engine.core.errors import DamagedError, NotBuiltError, ResourceError
from engine.encoders.fingerprint import adapter_digest
from engine.encoders.for_project import (
    check_device,
    encoder_fingerprint_of,
    model_fingerprint,
    project_model,
)
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.kinds.given_vectors import read_vectors
from engine.project.stage import ProjectSnapshot, Stage, StageContext, fingerprint
from engine.project.store.artifact_info import AdapterInfo, QueriesInfo, RankingsInfo
from engine.project.store.artifacts import Artifact
from engine.queries.choosing import with_backend
from engine.settings.schema import Settings
from engine.training.config import TrainingConfig
from engine.training.history import write_history
from engine.training.recipe import (
    fitting_checks,
    resolve_config,
    scope_reason,
    teacher_choice,
    teacher_folder,
)
from engine.written_queries.imports import graded_queries, imports_fingerprint

if TYPE_CHECKING:
    from engine.training.trainer import TrainResult

VERSION = 4


class TrainStage(Stage):
    """Ranked lists → a LoRA adapter, checkpointed under `checkpoints/FINGERPRINT`."""

    version = VERSION
    artifact = AdapterInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """The rankings and every number of the recipe."""
        rankings = snapshot.need(RankingsInfo)
        queries = snapshot.need(QueriesInfo)
        if rankings.info.queries != queries.info.content:
            raise NotBuiltError(
                "The rankings belong to earlier queries.",
                "",
                f"Run 'engine adapt {snapshot.project.argument}'.",
                code="rankings-outdated",
                stage="rank",
                command="adapt",
            )
        config = resolve_config(snapshot)
        teacher = teacher_folder(snapshot, config)
        return {
            "rankings": rankings.fingerprint,
            # a cross-encoder counts by its content, not by where it lies, and only where it teaches
            "config": (
                asdict(config)
                | {"cross_encoder": teacher.fingerprint if teacher else ""}
                | added_inputs(snapshot.settings)
            ),
            "base": encoder_fingerprint_of(snapshot, None, 1.0) if config.needs_vectors else "",
            **_graded(snapshot, config),
            **_everyday(snapshot, config),
            "lists": (
                snapshot.settings.ranking.model_dump(include={"m", "strategy"})
                | ({"evidence_score": "own"} if config.uses_lists else {})
            ),
            "model": model_fingerprint(snapshot),
            **({} if config.method == "FT" else {"pre-training": "without titles that decide"}),
        }

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raises SettingsError for a recipe whose values do not go together, ModelError for a
        teacher or vectors that cannot be used, UsageError for what this machine does not have,
        ResourceError for a model that is too large.
        """
        config = resolve_config(snapshot)
        teacher_folder(snapshot, config)
        check_device(snapshot.settings, "train")
        _check_memory(snapshot.settings, config)
        if given := snapshot.settings.encoder.vectors:
            read_vectors(given)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raises DamagedError or ModelError when the adapter on disk is not the one that was
        trained.
        """
        info = snapshot.need(AdapterInfo).info
        if info.adapter and adapter_digest(snapshot.project.path / info.adapter) != info.digest:
            what = f"The adapter {info.adapter} is damaged."
            raise DamagedError.of_stage(
                "train", what, "Its contents changed.", code="adapter-changed"
            )

    def run(self, context: StageContext) -> dict[str, Any]:
        """Train and keep the best adapter; with too few queries, say so and go on with the base
        encoder.

        A training that the user asked to finish early is done like one that ended by itself: it is
        up to date until an input or setting changes, and a forced one starts from the untouched
        encoder.
        """
        if context.settings.encoder.vectors:
            return _with_map(context)
        from engine.training.dataset import training_data, why_untrained

        queries = context.store.queries()
        chunks = context.store.chunks()
        reason = why_untrained(context.settings, queries, chunks)
        if reason:
            return _without_adapter(context, reason)
        from engine.encoders.for_project import training_hardware
        from engine.training.methods import learn

        config = resolve_config(context)
        if config.max_tokens < min(
            context.settings.corpus.chunk_tokens, context.settings.encoder.max_tokens
        ):
            context.choose(
                "tokens of a text",
                config.max_tokens,
                "longer ones are cut in training (training.max_tokens)",
            )
        if config.augmentation:
            context.choose(
                "trained",
                project_model(context.settings).name,
                f"encoder.small_model, joined by {config.augmentation}",
            )
        if config.weights == "all":
            context.choose("trained weights", "all", "training.weights: there are no LoRA layers")
        if config.method != "PT":
            settings = with_backend(context)
            chosen = settings.training
            if chosen.objective is not None:
                why = "it is set in project.toml"
            else:
                why = f"preset '{chosen.preset}'"
            context.choose("objective", config.objective, why)
            context.choose("adapter scope", config.adapter_scope, scope_reason(settings, config))
            context.choose("teacher", *teacher_choice(config, context.settings.ranking.m))
            if chosen.false_negatives not in (None, config.false_negatives):
                why = (
                    f"the loss '{config.objective}' follows the teacher in every chunk: it has no"
                    " negatives"
                )
                context.choose("false negatives", config.false_negatives, why)
        hardware = training_hardware(context)
        data = training_data(context, config)
        if (whole := config) != (config := fitting_checks(config, data, context.settings)):
            context.choose(
                "steps",
                config.steps,
                f"of {whole.steps}, as there is no check that could end the training",
            )
        checkpoints = context.project.path / "checkpoints" / context.fingerprint
        checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        model = project_model(context.settings)
        result, reason = learn(context, model, data, config, hardware, checkpoints)
        if result is None:
            summary = _without_adapter(context, reason)
            shutil.rmtree(context.project.path / "checkpoints", ignore_errors=True)
            return summary
        info = replace(
            publish_adapter(context, context.fingerprint, config, result),
            model=model_fingerprint(context),
        )
        context.store.put_artifact(Artifact(info, context.fingerprint, info.adapter or ""))
        shutil.rmtree(context.project.path / "checkpoints", ignore_errors=True)
        return {
            "adapter": info.adapter,
            "reason": "",
            "steps": info.steps,
            "best_step": info.best_step,
            "ended": info.ended,
            "adapter_scope": info.adapter_scope,
        }


def _check_memory(settings: Settings, config: TrainingConfig) -> None:
    """Raises ResourceError where all weights are to be trained and neither memory nor a GPU's
    holds what that takes.
    """
    if not config.trains_all_weights or not encoder_source(settings.encoder).trains:
        return
    from engine.encoders.hardware import find_gpus, foreseen
    from engine.encoders.model_size import model_size
    from engine.training.compute.memory import check_all_weights_fit

    model = project_model(settings)
    size = model_size(model)
    try:
        check_all_weights_fit(size, "cpu", model.name, psutil.virtual_memory().total)
    except ResourceError:
        device = foreseen(
            settings.encoder.device, settings.encoder.dtype, "train"
        )  # torch, which takes seconds
        if device == "cpu":
            raise
        number = int(device.partition(":")[2] or 0)
        check_all_weights_fit(size, device, model.name, find_gpus().usable[number].memory)


def _graded(snapshot: ProjectSnapshot, config: TrainingConfig) -> dict[str, Any]:
    """The imported files, where grades in them count."""
    if config.objective != "plackett_luce" or not graded_queries(snapshot.project):
        return {}
    return {"grades": imports_fingerprint(snapshot.project, "queries")}


def _everyday(snapshot: ProjectSnapshot, config: TrainingConfig) -> dict[str, Any]:
    """Which queries are everyday ones, where a share of them is drawn: an import may name
    another kind for the same text.
    """
    if config.everyday_share is None:
        return {}
    texts = sorted(query.text for query in snapshot.store.queries() if query.kind == "everyday")
    return {"everyday": fingerprint(texts=texts)}


def added_inputs(settings: Settings) -> dict[str, Any]:
    """Settings that came later count where they are set only: adapters of before are not trained
    anew.
    """
    added = {
        "query_share": settings.training.query_share,
        "lists_per_query": settings.ranking.lists_per_query,
    }
    changed: dict[str, Any] = {name: value for name, value in added.items() if value != 1}
    if not settings.ranking.keep_evidence:
        changed["keep_evidence"] = False
    return changed


def publish_adapter(
    context: StageContext, name: str, config: TrainingConfig, result: TrainResult
) -> AdapterInfo:
    """Copy a trained adapter into the project, and return what is known of it."""
    with context.project.building("adapters", name) as building:
        shutil.copytree(result.adapter, building.folder, dirs_exist_ok=True)
        write_history(building.folder, result.history)
    return AdapterInfo(
        building.name,
        steps=result.steps,
        best_step=result.best_step,
        ended=result.ended,
        seconds=result.seconds,
        adapter_scope=config.adapter_scope,
        digest=adapter_digest(context.project.path / building.name),
    )


def _with_map(context: StageContext) -> dict[str, Any]:
    """In place of a training: the map to given vectors."""
    from engine.training.model.query_map import fit_map

    with context.project.building("adapters", context.fingerprint) as building:
        summary = fit_map(context, building.folder)
    digest = adapter_digest(context.project.path / building.name)
    info = AdapterInfo(building.name, digest=digest, model=model_fingerprint(context))
    context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
    return {"adapter": building.name, "reason": "", **summary}


def _without_adapter(context: StageContext, reason: str) -> dict[str, Any]:
    context.warn(f"No adapter was trained: {reason}. Search uses the base encoder.")
    context.store.put_artifact(Artifact(AdapterInfo(reason=reason), context.fingerprint))
    return {"adapter": None, "reason": reason}


STAGE = TrainStage()
