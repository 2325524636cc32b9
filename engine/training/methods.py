"""The adaptation methods of METHODS.md §3: fine-tuning (FT), pre-training (PT), both (PT-FT)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.project.stage import StageContext

if TYPE_CHECKING:
    from engine.encoders.hardware import Hardware
    from engine.encoders.model_folder import ModelFolder
    from engine.training.config import TrainingConfig
    from engine.training.data import TrainingData
    from engine.training.job import Job
    from engine.training.trainer import TrainResult

PRETRAINING = "pretraining"
"""Folder of the checkpoints of pre-training, inside that of the training's."""


def learn(
    context: StageContext,
    model: ModelFolder,
    data: TrainingData,
    config: TrainingConfig,
    hardware: Hardware,
    folder: Path,
) -> tuple[TrainResult | None, str]:
    """Train by the recipe's method, with checkpoints under `folder`.

    Returns the result, or None and why there is no adapter. If pre-training does not apply, PT-FT
    is FT, and a warning says why. Asked to finish during pre-training, PT-FT makes one step of
    fine-tuning and its held-out checks. Of several processes the leading one pre-trains alone.
    Raises what `train` raises.
    """
    from engine.training.compute.launch import trains_alone
    from engine.training.distributed import train_together
    from engine.training.job import Job

    if trains_alone():
        why = "the others of this launch helped with its first training, and have ended"
        context.report_choice("processes", "1", why)
    job = Job(
        model=model,
        data=data,
        config=config,
        hardware=hardware,
        folder=folder,
        emit=context.emit,
        should_stop=context.should_stop,
        should_finish=context.should_finish,
    )
    if config.method == "FT":
        return train_together(job), ""
    pretrained, reason = _pretrain(context, replace(job, folder=folder / PRETRAINING))
    if config.method == "PT":
        return pretrained, reason
    if pretrained is None:
        context.warn(f"Pre-training was skipped: {reason}. Fine-tuning continues without it.")
        return train_together(job), ""
    why = (
        f"pre-training gave it in {pretrained.steps} steps on the corpus (training.method is PT-FT)"
    )
    context.report_choice("first adapter", "pre-trained", why)
    tuned = train_together(replace(job, start=pretrained.adapter))
    return replace(tuned, seconds=pretrained.seconds + tuned.seconds), ""


def _pretrain(context: StageContext, job: Job) -> tuple[TrainResult | None, str]:
    """Return the result of pre-training, or None and why nothing was pre-trained."""
    from engine.training.pretraining.loop import pretrain
    from engine.training.pretraining.mlm_head import why_unsuitable

    config = job.config
    reason = why_unsuitable(job.model, job.data.chunks)
    if reason:
        return None, reason
    why = f"training.method is {config.method}"
    context.report_choice(
        "pre-training",
        f"{config.pretrain_steps} steps",
        why,
    )
    result = pretrain(job)
    if job.hardware.device != "cpu":
        _free_gpu_memory()
    if config.method == "PT" and config.keep == "best" and result.best_step == 0:
        reason = (
            f"every step of pre-training that was checked, of {result.steps}, was clearly worse"
            " than base"
        )
        return None, reason
    return result, ""


def _free_gpu_memory() -> None:
    """Free what pre-training held on the GPU, before fine-tuning measures free memory."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()
