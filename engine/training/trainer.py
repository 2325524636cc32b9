"""Fine-tuning: batches of queries and chunks → gradients of the loss → LoRA weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.encoders.fingerprint import adapter_digest
from engine.training.compute.grad_cache import gradients
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.optimizer import learning_rate
from engine.training.compute.peers import ALONE, Peers
from engine.training.data import Batch, BatchSampler, FloatArray
from engine.training.heldout import HeldOutPool, build_pool
from engine.training.job import Job
from engine.training.loop import Ended, Gradients, Loop, Setup, TrainResult, prepared
from engine.training.model.augmentation import Loss, given, with_black_box
from engine.training.model.lora import start_of
from engine.training.model.student import Rows
from engine.training.objectives.objective import Objective, PairScores
from engine.training.objectives.pair_scores import pair_scores

__all__ = ["TrainResult", "train"]
_SCALED_BY = 32
"""Texts of each kind that the scale of hyperbolic vectors is taken from."""
_WHY = {
    True: "a GPU, a single core, dropout or little memory",
    False: (
        "small matrices run faster side by side on one core each than on all cores one after"
        " another"
    ),
}


def train(job: Job, peers: Peers = ALONE) -> TrainResult:
    """Train a LoRA adapter; on a CPU the same input gives the same adapter to the bit, broken
    off or not.

    `peers`: the processes that train together; only the leading one asks, emits and writes
        (`engine.training.distributed`).
    Resumes from the newest sound checkpoint of the same model, data and recipe. Once
    `should_finish` says so, a last held-out check is made, which no checkpoint remembers, and the
    best adapter so far is the result. Raises CancelledError after a checkpoint when `should_stop`
    says so; ResourceError when memory or disk runs out; StageError when the loss is no longer
    finite; ModelError for a model without places for LoRA.
    """
    with prepared(job, peers) as setup:
        return _Training(setup).run()


class _Training(Loop):
    name = "Training"
    of_what = ""
    rate_setting = "learning_rate"

    def __init__(self, setup: Setup) -> None:
        data = setup.job.data
        config = setup.job.config
        start = setup.job.start
        # of a checkpoint, which the leading process alone reads and writes: the others may not see
        # its folders
        key = setup.key(after=[adapter_digest(start)] if start and setup.peers.leads else [])
        super().__init__(setup, config.steps, build_pool(data, config), key)
        count = self.workers.count
        self.choose("micro-batches at a time", count, _WHY[count == 1])
        self.optimizer = self._adamw(self.student.masters.values())
        self.sampler = BatchSampler(data, config)
        self.graphs_reported = False

    def run(self) -> TrainResult:
        """From the last checkpoint, the adapter to begin with, or the base model, to the
        adapter.
        """
        vectors = self.data.base_queries, self.data.base_chunks
        if self.config.needs_vectors:
            base = (given(vectors[0]), given(vectors[1]))
        else:
            base = None
        # the vectors that chunks keep where queries alone are trained
        self.fixed = base[1] if base and self.config.adapter_scope == "queries" else None
        # not before: the teacher's vectors are those of the untouched encoder
        if self.config.similarity == "lorentz":
            sample = self.data.queries[:_SCALED_BY], self.data.chunks[:_SCALED_BY]
            self.student.text_model.geometry = self.peers.decide(
                self.student.geometry(self.config.curvature, *sample)
            )
        self.objective = Objective(self.config, base, self.hardware.device, self._pair_scores())
        if self.job.start is not None:
            if self.peers.leads:
                first = start_of(self.job.start, self.student.masters)
            else:
                first = {}
            self.student.load(self.peers.decide(first))
            self.best = self.student.snapshot()
        return self._repeat()

    def _gradients(self) -> Gradients:
        config = self.config
        step = self.state.step
        student = self.student
        plan = self.plan
        batch = self.sampler.batch(step)
        loss, entropy = self.objective.of(batch)
        rows, batches = self._micro_batches(batch)
        if self.fixed is not None:
            loss = self._beside_fixed(self.fixed, batch, loss)
        if config.augmentation:
            loss = with_black_box(self.data, batch, loss)
        student.training_mode()
        needed = student.graph_bytes(rows, self.peers.mine(batches))

        def forward(micro: MicroBatch) -> Tensor:
            return student.forward([rows[i] for i in micro.places], micro.prompt_length)

        value, found = gradients(
            forward,
            student.working,
            batches,
            loss,
            self.workers,
            keep_graphs=needed <= plan.graph_bytes,
            dropout=student.has_dropout,
            peers=self.peers,
        )
        if not self.graphs_reported:
            self._report_graphs(needed)
        rate = learning_rate(step, config.steps, config.learning_rate, config.warmup)
        return Gradients(
            value, list(student.masters.values()), found, [rate], sum(map(len, rows)), entropy
        )

    def _micro_batches(self, batch: Batch) -> tuple[Rows, list[MicroBatch]]:
        """The token rows of queries, then of chunks where these are trained, too; and which run
        together.
        """
        student = self.student
        budget = self.plan.micro_batch_tokens
        queries = student.query_rows([self.data.queries[i] for i in batch.queries])
        batches = micro_batches(
            list(map(len, queries)), budget, prompt_length=student.query_prompt_length
        )
        if self.fixed is not None:
            return queries, batches
        chunks = student.chunk_rows([self.data.chunks[i] for i in batch.chunks])
        return queries + chunks, batches + micro_batches(
            list(map(len, chunks)),
            budget,
            prompt_length=student.chunk_prompt_length,
            offset=len(queries),
        )

    def _beside_fixed(self, fixed: FloatArray, batch: Batch, loss: Loss) -> Loss:
        """The loss of the queries' vectors alone, the chunks' being what they are."""
        chunks = torch.from_numpy(fixed[batch.chunks]).to(self.student.device, torch.float32)
        return lambda vectors: loss(torch.cat([vectors, chunks]))

    def _report_graphs(self, needed: float) -> None:
        """Whether the first step's graphs were kept, or its texts run twice."""
        self.graphs_reported = True
        limit = self.plan.graph_bytes
        why = (
            f"a step's graphs take about {needed / 2**20:,.0f} MB; {limit / 2**20:,.0f} MB may be"
            " kept (training.graph_memory_mb)"
        )
        self.choose("GradCache", "off" if needed <= limit else "on", why)

    def _pool_vectors(self, pool: HeldOutPool) -> FloatArray:
        if self.fixed is None:
            return super()._pool_vectors(pool)
        return self.fixed[pool.chunks].astype(np.float32)

    def _why(self, ended: Ended) -> str:
        state = self.state
        if ended == "all steps" and not self.chooses_step:
            if self.config.keep == "last":
                return "the last one is kept (training.keep)"
            return ""
        if ended == "all steps":
            if state.best_step == 0:
                return "each step that was checked was clearly worse than the start"
            return ""
        why = f"stopped on request at step {state.step}"
        if ended == "no gain":
            why = f"no gain in {state.stale} held-out checks"
        return (
            f"{why}; the adapter of step {state.best_step if self.chooses_step else state.step} is"
            " kept"
        )

    def _pair_scores(self) -> PairScores | None:
        if self.config.used_teacher != "cross-encoder":
            return None
        given = self.data, self.hardware, self.workers, self.plan.micro_batch_tokens
        return pair_scores(*given, self._stop_if_asked, self.peers)
