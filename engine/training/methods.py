"""The adaptation methods of METHODS.md §3: fine-tuning (FT), masked-language pre-training (PT),
one after the other.
"""

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

PRETRAINING = "pretraining"  # the folder of its checkpoints, inside that of the training's


def learn(
    context: StageContext,
    model: ModelFolder,
    data: TrainingData,
    config: TrainingConfig,
    hardware: Hardware,
    folder: Path,
) -> tuple[TrainResult | None, str]:
    """Train by the recipe's method, with checkpoints under `folder`: the result, or None and why
    there is no adapter.

    Where pre-training does not apply, PT-FT is FT, and a warning says why. Asked to finish while it
    pre-trains, PT-FT makes one step of fine-tuning and its held-out checks. Of several processes
    the leading one pre-trains alone. Raises what `train` raises.
    """
    from engine.training.compute.launch import trains_alone
    from engine.training.distributed import train_together
    from engine.training.job import Job

    if trains_alone():
        context.choose(
            "processes",
            "1",
            "the others of this launch helped with its first training, and have ended",
        )
    job = Job(
        model,
        data,
        config,
        hardware,
        folder,
        context.emit,
        context.should_stop,
        context.should_finish,
    )
    if config.method != "FT":
        result, reason = _pretrained(context, replace(job, folder=folder / PRETRAINING))
        if config.method == "PT":
            return result, reason
        if result is None:
            context.warn(f"Pre-training was skipped: {reason}. Fine-tuning continues without it.")
        else:
            job = replace(job, start=result.adapter)
            why = (
                f"pre-training gave it in {result.steps} steps on the corpus (training.method is"
                " PT-FT)"
            )
            context.choose("first adapter", "pre-trained", why)
            tuned = train_together(job)
            return replace(tuned, seconds=result.seconds + tuned.seconds), ""
    return train_together(job), ""


def _pretrained(context: StageContext, job: Job) -> tuple[TrainResult | None, str]:
    from engine.training.pretraining.loop import pretrain
    from engine.training.pretraining.mlm_head import unsuitable

    config = job.config
    if reason := unsuitable(job.model, job.data.chunks):
        return None, reason
    context.choose(
        "pre-training", f"{config.pretrain_steps} steps", f"training.method is {config.method}"
    )
    result = pretrain(job)
    if job.hardware.device != "cpu":
        _give_back_memory()
    if config.method == "PT" and config.keep == "best" and result.best_step == 0:
        return (
            None,
            (
                f"every step of pre-training that was checked, of {result.steps}, was clearly worse"
                " than base"
            ),
        )
    return result, ""


def _give_back_memory() -> None:
    """What pre-training held on the GPU is free before fine-tuning looks how much there is."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()
