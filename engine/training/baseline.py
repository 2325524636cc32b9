"""The CL baseline (METHODS.md §1): an adapter trained by plain in-batch InfoNCE on the project's own training queries.

It is trained to be compared with and is never used: it has an artifact of its own, which the stage `evaluate` makes where
`evaluation.cl_baseline` asks for it, and the adapter that the stage `train` made stays what it is.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, replace
from typing import Any

from engine.core.errors import EngineError, SettingsError
from engine.core.events import Emit, Event, Progress, TrainStep, Warned
from engine.encoders.for_project import model_fingerprint, project_model
from engine.encoders.kinds.chosen import encoder_source
from engine.project.stage import ProjectSnapshot, StageContext, fingerprint
from engine.project.store.artifact_info import BaselineInfo, RankingsInfo
from engine.project.store.artifacts import Artifact
from engine.queries.choosing import with_backend
from engine.settings.renamed import recipe_identity
from engine.settings.schema import Settings
from engine.training.config import PRESETS, TrainingConfig
from engine.training.recipe import config_of, with_epochs
from engine.training.stage import added_inputs, digest_of, publish_adapter

VERSION = 1
_PLAIN: dict[str, Any] = {
    "objective": "infonce", "queries_per_step": PRESETS["cl"].queries_per_step, "negatives_per_query": 0, "shared_chunks": 0,
    "method": "FT", "teacher": "auto", "cross_encoder": "", "false_negatives": "keep",
    "adapter_scope": "both", "similarity": "cosine",
}  # fmt: skip


def baseline_config(settings: Settings) -> TrainingConfig:
    """InfoNCE with the evidence chunks of 16 queries, each a negative of the others (BMEmbed, section 4.1), of queries and chunks.

    Steps, learning rate and LoRA are those of the project's recipe. Raises SettingsError for values that do not go together.
    """
    return replace(config_of(settings), **_PLAIN)


def check_baseline(settings: Settings) -> None:
    """Raises SettingsError where the encoder itself is not trained."""
    encoder = encoder_source(settings.encoder)
    why = "" if encoder.abilities.trains and encoder.folder else f"The encoder {encoder.name} cannot be trained."
    if settings.encoder.small_model:
        why = "It is a plain training of the encoder, of which only encoder.small_model is trained here."
    if why:
        raise SettingsError(
            "There is no CL baseline for this encoder.", why, "Set evaluation.cl_baseline to false.", code="baseline-untrainable",
        ).at(key="evaluation.cl_baseline")  # fmt: skip


def baseline_fingerprint(snapshot: ProjectSnapshot) -> str:
    """What the baseline would be trained from. Raises NotBuiltError before the rankings, SettingsError, ModelError."""
    return fingerprint(
        kind=BaselineInfo.kind, version=VERSION, rankings=snapshot.need(RankingsInfo).fingerprint,
        config=recipe_identity(asdict(with_epochs(baseline_config(with_backend(snapshot)), snapshot)))
        | added_inputs(snapshot.settings),
        model=model_fingerprint(snapshot),
    )  # fmt: skip


def baseline_adapter(context: StageContext) -> BaselineInfo:
    """The baseline, trained first where it is not there yet: reported with its reason, resumable, cancellable.

    Raises what `engine.training.trainer.train` raises.
    """
    wanted = baseline_fingerprint(context)
    found = context.store.artifact(BaselineInfo)
    if found is not None and found.fingerprint == wanted and _sound(context, found):
        return found.info
    from engine.training.dataset import why_untrained

    reason = why_untrained(context.settings, context.store.queries(), context.store.chunks())
    if reason:
        return BaselineInfo(reason=reason)
    return _trained(context, wanted)


def _sound(snapshot: ProjectSnapshot, artifact: Artifact[BaselineInfo]) -> bool:
    try:
        folder = snapshot.project.path / artifact.folder
        return digest_of(folder, artifact.info.adapter_scope) == artifact.info.digest
    except (EngineError, OSError):  # damaged or gone
        return False


def _trained(context: StageContext, wanted: str) -> BaselineInfo:
    from engine.encoders.for_project import training_hardware
    from engine.training.dataset import training_data
    from engine.training.methods import learn

    config = with_epochs(baseline_config(with_backend(context)), context)
    context.choose(
        "CL baseline",
        f"{config.steps} steps of {config.queries_per_step} queries",
        "evaluation.cl_baseline is set: one more training, by InfoNCE alone; it is compared with and never used",
    )
    checkpoints = context.project.path / "checkpoints" / f"{BaselineInfo.kind}-{wanted}"
    checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
    began = time.monotonic()
    result, _ = learn(
        replace(context, emit=as_part_of(context.stage, context.emit), should_finish=lambda: False),
        project_model(context.settings), training_data(context, config), config, training_hardware(context),
        checkpoints,
    )  # fmt: skip
    if result is None:  # without pre-training there always is one
        raise AssertionError("fine-tuning gave no adapter")
    adapter = publish_adapter(context, wanted, config, result)
    info = BaselineInfo(
        adapter.adapter, "", adapter.adapter_scope, adapter.digest, adapter.steps, adapter.best_step, adapter.ended,
        round(time.monotonic() - began, 1),
    )  # fmt: skip
    context.store.put_artifact(Artifact(info, wanted, adapter.adapter or ""))
    shutil.rmtree(checkpoints, ignore_errors=True)
    return info


def as_part_of(stage: str, emit: Emit) -> Emit:
    """Its steps as progress of another stage: events of a training are those of the adapter that may be used."""

    def relayed(event: Event) -> None:
        match event:
            case TrainStep():
                emit(Progress(stage=stage, done=event.step, total=event.steps, unit="steps of the CL baseline"))
            case Progress() | Warned():
                emit(replace(event, stage=stage))
            case _:
                pass

    return relayed
