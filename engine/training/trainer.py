"""Fine-tuning: the loss of batches of queries and chunks changes LoRA weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.encoders.fingerprint import adapter_digest
from engine.training.batches import Batch, BatchSampler
from engine.training.compute.grad_cache import compute_gradients
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.optimizer import learning_rate
from engine.training.compute.peers import ALONE, Peers
from engine.training.data import FloatArray
from engine.training.heldout import HeldOutPool, build_pool
from engine.training.job import Job
from engine.training.loop import Ended, Gradients, Loop, Setup, TrainResult, prepare
from engine.training.model.augmentation import Loss, add_black_box, require_vectors
from engine.training.model.lora import read_initial_tensors
from engine.training.model.student import Rows
from engine.training.objectives.objective import BaseVectors, Objective, PairScores
from engine.training.objectives.pair_scores import pair_scores

__all__ = ["TrainResult", "train"]
_SCALE_SAMPLE = 32
"""Number of queries, and of chunks, from which the scale of hyperbolic vectors is measured."""


def train(job: Job, peers: Peers = ALONE) -> TrainResult:
    """Train a LoRA adapter; on a CPU the same input gives the same adapter to the bit.

    That also holds for an interrupted training, which resumes from the newest valid checkpoint of
    the same model, data and recipe. Of the `peers` that train together, only the leading one asks,
    emits and writes (`engine.training.distributed`). Once `should_finish` is true, a last held-out
    check is made, which no checkpoint records, and the best adapter so far is the result. Raises
    CancelledError after a checkpoint if `should_stop` is true; ResourceError if memory or disk runs
    out; StageError if the loss is not finite; ModelError for a model without places for LoRA.
    """
    with prepare(job, peers) as setup:
        return _Training(setup).run()


class _Training(Loop):
    """Fine-tuning: each step's loss compares vectors of queries and chunks."""

    name = "Training"
    steps_suffix = ""
    rate_setting = "learning_rate"

    def __init__(self, setup: Setup) -> None:
        data = setup.job.data
        config = setup.job.config
        start = setup.job.start
        # Only the leading process reads and writes checkpoints; others may not see its folders.
        after = []
        if start and setup.peers.leads:
            after.append(adapter_digest(start))
        super().__init__(
            setup,
            config.steps,
            build_pool(data, config),
            setup.key(after=after),
        )
        self.optimizer = self._adamw(self.student.masters.values())
        self.sampler = BatchSampler(data, config)
        self.graphs_reported = False

    def run(self) -> TrainResult:
        """Train from the last checkpoint, a given adapter or the base model to the adapter."""
        base: BaseVectors | None = None
        if self.config.needs_vectors:
            base = BaseVectors(
                require_vectors(self.data.base_queries), require_vectors(self.data.base_chunks)
            )
        # Chunks keep these vectors if only queries are trained.
        self.fixed: FloatArray | None = None
        if base is not None and self.config.adapter_scope == "queries":
            self.fixed = base.chunks
        # The geometry is set after the teacher's vectors, which are the untouched encoder's.
        if self.config.similarity == "lorentz":
            queries = self.data.queries[:_SCALE_SAMPLE]
            chunks = self.data.chunks[:_SCALE_SAMPLE]
            geometry = self.student.fit_geometry(
                self.config.curvature,
                queries,
                chunks,
            )
            self.student.text_model.geometry = self.peers.decide(geometry)
        self.objective = Objective(
            self.config,
            base,
            self.hardware.device,
            self._pair_scores(),
        )
        if self.job.start is not None:
            tensors: dict[str, Tensor] = {}
            if self.peers.leads:
                tensors = read_initial_tensors(self.job.start, self.student.masters)
            self.student.load(self.peers.decide(tensors))
            self.best = self.student.snapshot()
        return self._train()

    def _compute_gradients(self) -> Gradients:
        """Return the gradients of the next step's batch, by GradCache."""
        config = self.config
        step = self.state.step
        student = self.student
        plan = self.plan
        batch = self.sampler.batch(step)
        loss, entropy = self.objective.build_loss(batch)
        rows, batches = self._build_micro_batches(batch)
        if self.fixed is not None:
            loss = self._add_fixed(
                self.fixed,
                batch,
                loss,
            )
        if config.augmentation:
            loss = add_black_box(
                self.data,
                batch,
                loss,
            )
        student.training_mode()
        needed = student.graph_bytes(rows, self.peers.own_share(batches))
        self.keeps_graphs = needed <= plan.graph_bytes

        def forward(micro: MicroBatch) -> Tensor:
            return student.forward([rows[i] for i in micro.places], micro.prompt_length)

        value, weight_gradients = compute_gradients(
            forward,
            student.working,
            batches,
            loss,
            self.workers,
            keep_graphs=self.keeps_graphs,
            dropout=student.has_dropout,
            peers=self.peers,
        )
        if not self.graphs_reported:
            self._report_graphs(needed)
        rate = learning_rate(
            step,
            config.steps,
            config.learning_rate,
            config.warmup,
        )
        tokens = sum(map(len, rows))
        return Gradients(
            loss=value,
            trained=list(student.masters.values()),
            gradients=weight_gradients,
            rates=[rate],
            tokens=tokens,
            entropy=entropy,
        )

    def _build_micro_batches(self, batch: Batch) -> tuple[Rows, list[MicroBatch]]:
        """Return the token rows of queries, then of trained chunks, and their micro-batches."""
        student = self.student
        budget = self.plan.micro_batch_tokens
        queries = student.query_rows([self.data.queries[i] for i in batch.queries])
        lengths = list(map(len, queries))
        batches = micro_batches(
            lengths,
            budget,
            prompt_length=student.query_prompt_length,
        )
        if self.fixed is not None:
            return queries, batches
        chunks = student.chunk_rows([self.data.chunks[i] for i in batch.chunks])
        batches += micro_batches(
            list(map(len, chunks)),
            budget,
            prompt_length=student.chunk_prompt_length,
            offset=len(queries),
        )
        return queries + chunks, batches

    def _add_fixed(
        self,
        fixed: FloatArray,
        batch: Batch,
        loss: Loss,
    ) -> Loss:
        """Return a loss of the queries' vectors (q, d), from one of all vectors (q + c, d).

        The chunks have their `fixed` vectors (N, d).
        """
        chunks = torch.from_numpy(fixed[batch.chunks]).to(self.student.device, torch.float32)
        return lambda vectors: loss(torch.cat([vectors, chunks]))

    def _report_graphs(self, needed: float) -> None:
        """Report whether the first step's graphs were kept, or its texts run twice."""
        self.graphs_reported = True
        limit = self.plan.graph_bytes
        why = (
            f"a step's graphs take about {needed / 2**20:,.0f} MB; {limit / 2**20:,.0f} MB may be"
            " kept (training.graph_memory_mb)"
        )
        self.report_choice(
            "GradCache",
            "off" if self.keeps_graphs else "on",
            why,
        )

    def _pool_vectors(self, pool: HeldOutPool) -> FloatArray:
        """See `Loop`; fixed chunks need not be encoded."""
        if self.fixed is None:
            return super()._pool_vectors(pool)
        return self.fixed[pool.chunks].astype(np.float32)

    def _explain_end(self, ended: Ended) -> str:
        """See `Loop`."""
        state = self.state
        if ended == "all steps" and not self.chooses_step:
            if self.config.keep == "last":
                return "the last one is kept (training.keep)"
            return ""
        if ended == "all steps":
            if state.best_step == 0:
                return "each step that was checked was clearly worse than the start"
            return ""
        step = state.best_step if self.chooses_step else state.step
        why = f"stopped on request at step {state.step}"
        if ended == "no gain":
            why = f"no gain in {state.stale} held-out checks"
        return f"{why}; the adapter of step {step} is kept"

    def _pair_scores(self) -> PairScores | None:
        """Return the function to a cross-encoder's scores, None if none teaches."""
        if self.config.used_teacher != "cross-encoder":
            return None
        return pair_scores(
            self.data,
            self.hardware,
            self.workers,
            self.plan.micro_batch_tokens,
            self._stop_if_asked,
            self.peers,
        )
