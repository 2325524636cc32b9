"""The second part of `adapter_scope = "both-then-queries"`: the queries' side is trained on, against chunks that stay as they are.

A step encodes no chunk, so each query is compared with the whole corpus, not with the chunks of a batch alone: what
Zhan et al. 2021 ("Optimizing Dense Retrieval Model Training with Hard Negatives", ADORE) do after joint training.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.events import Emit, Event, HeldOut, TrainStep
from engine.project.stage import StageContext

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.training.job import Job
    from engine.training.trainer import TrainResult

FOLDER = "queries"  # of its checkpoints, inside that of the training's


def refine_queries(context: StageContext, job: Job, both: TrainResult) -> TrainResult:
    """Train on from `both`, the adapter of both sides, for queries alone: `adapter` of the result encodes queries,
    `chunk_adapter` chunks. It is `both` itself where no step found the held-out queries' chunks better.

    Steps are counted on from those of `both`. `job` has the recipe of both parts. Raises what `train` raises.
    """
    from engine.training.trainer import train

    vectors = adapted_chunk_vectors(context, both.adapter)
    result = train(
        replace(
            job, data=replace(job.data, fixed_chunks=vectors), config=job.config.for_refinement(),
            emit=counted(context.emit, before=both.steps), start=both.adapter,
        )
    )  # fmt: skip
    if result.best_step == 0:
        why = f"no step of {result.steps} on queries alone found the held-out queries' chunks better"
        context.choose("query adapter", "none", why)
        return both
    why = f"its best step is {both.steps + result.best_step}; chunks keep the vectors of step {both.best_step}"
    context.choose("query adapter", "one of its own", why)
    return joined(both, result)


def joined(both: TrainResult, queries: TrainResult) -> TrainResult:
    """Two trainings, one after the other, as one."""
    later = [{**entry, "step": both.steps + entry["step"]} for entry in queries.history if entry["step"]]
    return replace(
        queries, chunk_adapter=both.adapter, steps=both.steps + queries.steps, best_step=both.steps + queries.best_step,
        history=[*both.history, *later],
    )  # fmt: skip


def counted(emit: Emit, before: int = 0, after: int = 0) -> Emit:
    """Events of a training that so many steps precede and follow."""

    def shifted(event: Event) -> None:
        match event:
            case TrainStep():
                emit(replace(event, step=before + event.step, steps=before + event.steps + after))
            case HeldOut():
                emit(replace(event, step=before + event.step))
            case _:
                emit(event)

    return shifted


def adapted_chunk_vectors(context: StageContext, adapter: Path) -> NDArray[np.float32]:
    """Unit vectors (N, d) by the adapter at full strength; the evaluation finds them in the cache."""
    from engine.encoders.for_project import chunk_vectors, load_encoder

    encoder = load_encoder(context, adapter)
    return chunk_vectors(context, encoder, context.store.chunks(), "chunks (adapted)")
