"""Stage `train`: trains a LoRA adapter, checkpointed under `checkpoints/FINGERPRINT`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import psutil

from engine.core.errors import DamagedError, NotBuiltError, ResourceError
from engine.core.platforms.files import try_remove_tree
from engine.datasets.imports import graded_queries, imports_fingerprint
from engine.encoders.fingerprint import adapter_digest
from engine.encoders.for_project import (
    check_device,
    encoder_fingerprint_of,
    model_fingerprint,
    project_model,
)
from engine.encoders.kinds.chosen import encoder_source
from engine.project.stage import ProjectSnapshot, Stage, StageContext, fingerprint
from engine.project.store.artifact_info import AdapterInfo, QueriesInfo, RankingsInfo
from engine.project.store.artifacts import Artifact
from engine.queries.choosing import with_backend
from engine.settings.schema import Settings
from engine.training.config import TrainingConfig
from engine.training.history import write_history
from engine.training.recipe import (
    choose_adapter_scope,
    graded_texts_if_selected,
    limit_epochs,
    resolve_config,
    teacher_choice,
    teacher_folder,
)

if TYPE_CHECKING:
    from engine.training.trainer import TrainResult

VERSION = 5


class TrainStage(Stage):
    """Training of an adapter from ranked lists, checkpointed under `checkpoints/FINGERPRINT`."""

    version = VERSION
    artifact = AdapterInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return the rankings and every number of the recipe."""
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
        settings = snapshot.settings
        recipe = config.numbers()
        recipe["query_share"] = settings.training.query_share
        recipe["query_source"] = settings.training.query_source
        recipe["lists_per_query"] = settings.ranking.lists_per_query
        recipe["keep_evidence"] = settings.ranking.keep_evidence
        # A cross-encoder counts by its content, not by its path, and only if it teaches.
        teacher = teacher_folder(snapshot, config)
        recipe["cross_encoder"] = teacher.fingerprint if teacher else ""
        lists = settings.ranking.model_dump(include={"m", "strategy"})
        if config.uses_candidates:
            lists = {"candidates": config.teacher_candidates}
        elif config.uses_lists:
            # Sets these lists apart from those in which the evidence had another chunk's score.
            lists["evidence_score"] = "own"
        return {
            "rankings": rankings.fingerprint,
            "config": recipe,
            "base": encoder_fingerprint_of(snapshot, None, 1.0) if config.needs_vectors else "",
            **_graded_inputs(snapshot, config),
            **_everyday_inputs(snapshot, config),
            "lists": lists,
            "model": model_fingerprint(snapshot),
        }

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Check that the recipe can be trained on this machine.

        Raises SettingsError for values that do not go together, ModelError for an unusable
        teacher, UsageError for a missing device, ResourceError for a model that is too large.
        """
        config = resolve_config(snapshot)
        teacher_folder(snapshot, config)
        check_device(snapshot.settings, "train")
        _check_memory(snapshot.settings, config)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raise DamagedError or ModelError if the adapter on disk is not the trained one."""
        info = snapshot.need(AdapterInfo).info
        if not info.adapter:
            return
        if adapter_digest(snapshot.project.path / info.adapter) != info.digest:
            raise DamagedError.of_stage(
                "train",
                f"The adapter {info.adapter} is damaged.",
                "Its contents changed.",
                code="adapter-changed",
            )

    def run(self, context: StageContext) -> dict[str, Any]:
        """Train and publish the best adapter; with too few queries, record that there is none.

        A training that the user asked to finish early counts as a complete one: it is up to date
        until an input or setting changes, and a forced one starts from the untouched encoder.
        """
        from engine.training.dataset import training_data, why_untrained

        queries = context.store.queries()
        chunks = context.store.chunks()
        reason = why_untrained(
            context.settings,
            queries,
            chunks,
            graded_texts_if_selected(context),
        )
        if reason:
            return _publish_reason(context, reason)
        from engine.encoders.for_project import training_hardware
        from engine.training.methods import learn

        config = resolve_config(context)
        _report_choices(context, config)
        hardware = training_hardware(context)
        data = training_data(context, config, chunks)
        planned = config.steps
        config = limit_epochs(
            config,
            data,
            context.settings,
        )
        if config.steps != planned:
            why = f"of {planned}, as there is no check that could end the training"
            context.report_choice(
                "steps",
                config.steps,
                why,
            )
        checkpoints = context.project.path / "checkpoints" / context.fingerprint
        checkpoints.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        model = project_model(context.settings)
        result, reason = learn(
            context,
            model,
            data,
            config,
            hardware,
            checkpoints,
        )
        if result is None:
            summary = _publish_reason(context, reason)
            try_remove_tree(context.project.path / "checkpoints")
            return summary
        info = _publish_adapter(context, config, result)
        context.store.put_artifact(Artifact(info, context.fingerprint, info.adapter or ""))
        try_remove_tree(context.project.path / "checkpoints")
        return {
            "adapter": info.adapter,
            "reason": "",
            "steps": info.steps,
            "best_step": info.best_step,
            "ended": info.ended,
            "adapter_scope": info.adapter_scope,
        }


def _report_choices(context: StageContext, config: TrainingConfig) -> None:
    """Report what the recipe has chosen by itself, and where it departs from project.toml."""
    settings = context.settings
    if config.max_tokens < min(settings.corpus.chunk_tokens, settings.encoder.max_tokens):
        why = "longer ones are cut in training (training.max_tokens)"
        context.report_choice(
            "tokens of a text",
            config.max_tokens,
            why,
        )
    if config.augmentation:
        why = f"encoder.small_model, joined by {config.augmentation}"
        context.report_choice(
            "trained",
            project_model(settings).name,
            why,
        )
    if config.weights == "all":
        context.report_choice(
            "trained weights", "all", "training.weights: there are no LoRA layers"
        )
    if config.method == "PT":
        return
    settings = with_backend(context)
    chosen = settings.training
    why = f"preset '{chosen.preset}'"
    if chosen.objective is not None:
        why = "it is set in project.toml"
    context.report_choice(
        "objective",
        config.objective,
        why,
    )
    _, why = choose_adapter_scope(settings, config)
    context.report_choice(
        "adapter scope",
        config.adapter_scope,
        why,
    )
    teacher, why = teacher_choice(config, settings.ranking.m)
    context.report_choice("teacher", teacher, why)
    if chosen.false_negatives not in (None, config.false_negatives):
        why = (
            f"the loss '{config.objective}' follows the teacher in every chunk: it has no negatives"
        )
        context.report_choice(
            "false negatives",
            config.false_negatives,
            why,
        )


def _check_memory(settings: Settings, config: TrainingConfig) -> None:
    """Raise ResourceError if a training of all weights fits neither into memory nor onto a GPU."""
    if not config.trains_all_weights or not encoder_source(settings.encoder).trains:
        return
    from engine.encoders.hardware import find_gpus, foresee_device
    from engine.encoders.model_size import model_size
    from engine.training.compute.memory import check_all_weights_fit

    model = project_model(settings)
    size = model_size(model)
    try:
        check_all_weights_fit(
            size,
            "cpu",
            model.name,
            psutil.virtual_memory().total,
        )
    except ResourceError:
        # Looking for a GPU imports torch, which takes seconds, so memory is checked first.
        device = foresee_device(
            settings.encoder.device,
            settings.encoder.dtype,
            "train",
        )
        if device == "cpu":
            raise
        number = int(device.partition(":")[2] or 0)
        check_all_weights_fit(
            size,
            device,
            model.name,
            find_gpus().usable[number].memory,
        )


def _graded_inputs(snapshot: ProjectSnapshot, config: TrainingConfig) -> dict[str, Any]:
    """Return the fingerprint of the imported files, if the training uses their grades."""
    selected = snapshot.settings.training.query_source != "all"
    if config.objective != "plackett_luce" and not selected:
        return {}
    if not graded_queries(snapshot.project):
        return {}
    return {"grades": imports_fingerprint(snapshot.project, "queries")}


def _everyday_inputs(snapshot: ProjectSnapshot, config: TrainingConfig) -> dict[str, Any]:
    """Return a fingerprint of the everyday queries, if the recipe draws a share of them.

    A query's kind is not part of `QueriesInfo.content`, and an import may change it.
    """
    if config.everyday_share is None:
        return {}
    texts = sorted(query.text for query in snapshot.store.queries() if query.kind == "everyday")
    return {"everyday": fingerprint(texts=texts)}


def _publish_adapter(
    context: StageContext, config: TrainingConfig, result: TrainResult
) -> AdapterInfo:
    """Copy a trained adapter into the project, and return its record."""
    with context.project.building("adapters", context.fingerprint) as building:
        shutil.copytree(
            result.adapter,
            building.folder,
            dirs_exist_ok=True,
        )
        write_history(building.folder, result.history)
    return AdapterInfo(
        building.name,
        steps=result.steps,
        best_step=result.best_step,
        ended=result.ended,
        seconds=result.seconds,
        adapter_scope=config.adapter_scope,
        digest=adapter_digest(context.project.path / building.name),
        model=model_fingerprint(context),
    )


def _publish_reason(context: StageContext, reason: str) -> dict[str, Any]:
    """Record why no adapter was trained, and warn."""
    context.warn(f"No adapter was trained: {reason}. Search uses the base encoder.")
    context.store.put_artifact(Artifact(AdapterInfo(reason=reason), context.fingerprint))
    return {"adapter": None, "reason": reason}


STAGE = TrainStage()
