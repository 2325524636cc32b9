"""The training loop: steps, held-out checks, checkpoints, early stopping and resuming.

Fine-tuning and pre-training share it.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from engine.core.disk import json_sha256
from engine.core.events import Choice, HeldOut, Progress, Warned
from engine.encoders.geometry.spaces import OwnLengths
from engine.encoders.hardware import HardwareChoice
from engine.training import checkpoint
from engine.training.compute import faults, optimizer
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.plan import Plan, free_memory, make_plan
from engine.training.compute.workers import Workers, choose_workers
from engine.training.data import FloatArray
from engine.training.heldout import HeldOutPool, measure
from engine.training.job import Job
from engine.training.meter import Meter
from engine.training.model.augmentation import join_black_box
from engine.training.model.lora import write_adapter
from engine.training.model.student import Rows, Student, StudentEncoder
from engine.training.streams import Stream, torch_seed

STAGE = "train"
_LENGTH_SAMPLE = 256
"""Number of chunks whose vectors' mean length scales λ-Mafin (METHODS.md §2)."""
Ended = Literal["all steps", "no gain", "asked"]


@dataclass(frozen=True, slots=True)
class TrainResult:
    """The result of a training."""

    adapter: Path
    """Folder with the best weights, or with `training.keep` the last ones."""
    steps: int
    best_step: int
    """0 if every later check was clearly worse than the first."""
    best_ndcg_at_10: float | None
    """In percent; None without held-out queries."""
    history: list[dict[str, float | int]]
    """An entry per held-out check: step, loss, target_entropy, hit_at_10, ndcg_at_10.

    Loss and target entropy (in nats) are means over the steps since the entry before. Without
    checks there are some twenty entries with the first three figures.
    """
    ended: Ended = "all steps"
    """Whether all steps were made, held-out checks showed no more gain, or the user asked."""
    seconds: float = 0.0
    """Time over all runs, without loading the model."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A job with its loaded model, and how its steps are computed."""

    job: Job
    student: Student
    workers: Workers
    plan: Plan
    peers: Peers = ALONE

    def key(self, before: Sequence[str] = (), after: Sequence[str] = ()) -> str:
        """Return a hash of all that decides the result.

        Checkpoints with another key are not resumed. `before` and `after` are further inputs, which
        are hashed before and after the others.
        """
        job = self.job
        device = job.hardware.device.partition(":")[0]
        dtype = job.hardware.dtype
        recipe = [
            job.model.fingerprint,
            job.data.digest(),
            asdict(job.config),
            device,
            dtype,
        ]
        return json_sha256([*before, *recipe, *after])


@contextmanager
def prepare(
    job: Job, peers: Peers = ALONE, *, report: bool = True, whole: bool = False
) -> Iterator[Setup]:
    """Load the model and decide how steps are computed; `report`: emit these choices.

    `whole`: as in `Student`. Raises ResourceError if memory runs out.
    """
    config = job.config
    hardware = job.hardware
    with faults.memory_errors():
        student = Student(
            job.model,
            config,
            hardware,
            whole=whole,
        )
        free = max(0, free_memory(hardware, peers.local_count) - student.state_bytes)
        plan = peers.decide(make_plan(student, config, hardware, free))
        if plan.checkpointing:
            student.checkpoint_blocks()
        count, threads, why = peers.decide(choose_workers(student, config, hardware, free))
        if report:
            at_a_time = HardwareChoice(
                "micro-batches at a time",
                str(count),
                why,
            )
            for choice in (*plan.choices, at_a_time):
                event = Choice(
                    stage=STAGE, setting=choice.setting, value=choice.value, reason=choice.reason
                )
                job.emit(event)
        with Workers(count, threads) as workers:
            yield Setup(
                job=job,
                student=student,
                workers=workers,
                plan=plan,
                peers=peers,
            )


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of a step."""

    loss: float
    """Mean over the step."""
    trained: Sequence[Tensor]
    """The tensors that the step changes: some or all of the masters."""
    gradients: Sequence[Tensor]
    """The gradient of each tensor of `trained`."""
    rates: Sequence[float]
    """Learning rate of each group of the optimizer."""
    tokens: int
    """Number of tokens that were trained on."""
    entropy: float = 0.0
    """Entropy of the targets in nats, mean over the step."""


class Loop(ABC):
    """A training, by fine-tuning or pre-training.

    A subclass sets `optimizer` for all masters, prepares itself, and then calls `_train`. A master
    is the float32 copy of a trained tensor, which the optimizer changes. `pool`: what held-out
    checks rank, None without them. `key` names the training's checkpoints. `best`: a copy of the
    weights of the best step so far.
    """

    name: ClassVar[str]
    steps_suffix: ClassVar[str]
    """Words after "steps" where the number of steps is reported."""
    rate_setting: ClassVar[str]
    """Setting of the learning rate."""
    optimizer: torch.optim.AdamW
    keeps_graphs = False
    """Whether the current step keeps the graphs of all its texts, so that none is encoded twice."""

    def __init__(
        self,
        setup: Setup,
        steps: int,
        pool: HeldOutPool | None,
        key: str,
    ) -> None:
        self.job = setup.job
        self.student = setup.student
        self.workers = setup.workers
        self.plan = setup.plan
        self.peers = setup.peers
        self.data = setup.job.data
        self.config = setup.job.config
        self.hardware = setup.job.hardware
        self.emit = setup.job.emit
        self.steps = steps
        self.pool = pool
        self.key = key
        queries: list[str] = []
        if pool:
            queries = [self.data.heldout_queries[i] for i in pool.queries]
        self.pool_queries: Rows = self.student.query_rows(queries)
        self.pool_chunks: Rows | None = None
        self.encoder = StudentEncoder(
            self.student,
            self.workers,
            self.plan.micro_batch_tokens,
            self._stop_if_asked,
            self.peers,
        )
        self.meter = Meter(
            steps,
            self.hardware.device,
            self.emit,
        )
        self.state = checkpoint.TrainingState()
        self.best = self.student.snapshot()
        self.prepared = False
        self.counted_until = time.monotonic()
        # A stop is possible from here on.
        if self.config.augmentation == "lambda-mafin":
            self._match_lengths()

    def _match_lengths(self) -> None:
        """Scale the small model's vectors to the mean length of the black box's (λ-Mafin).

        The mean is over a sample of chunks; the black box's vectors are of unit length.
        """
        rng = np.random.default_rng([self.config.seed, Stream.LENGTH_SAMPLE])
        sample = rng.permutation(len(self.data.chunks))[:_LENGTH_SAMPLE]
        chunks = [self.data.chunks[row] for row in sample]
        rows = self.student.chunk_rows(chunks)
        vectors = self.encoder.chunks(rows)
        mean_length = float(np.linalg.norm(vectors, axis=1).mean())
        self.student.text_model.geometry = OwnLengths(1 / mean_length)

    def _adamw(self, *groups: Iterable[Tensor]) -> torch.optim.AdamW:
        """Return the optimizer for groups of tensors, whose learning rates every step sets."""
        parameters = [{"params": list(group)} for group in groups]
        decay = self.config.weight_decay
        fused = self.plan.fused or None
        return torch.optim.AdamW(
            parameters,
            lr=0.0,
            weight_decay=decay,
            fused=fused,
        )

    @abstractmethod
    def _compute_gradients(self) -> Gradients:
        """Return the gradients of the next step."""

    @abstractmethod
    def _explain_end(self, ended: Ended) -> str:
        """Return why the kept adapter is this one, empty if there is nothing to say."""

    @property
    def chooses_step(self) -> bool:
        """Whether held-out checks choose the step that is kept."""
        return self.pool is not None and self.config.keep == "best"

    @property
    def masters(self) -> dict[str, Tensor]:
        """Everything that is trained."""
        return dict(self.student.masters)

    def _publish(self) -> None:
        """Copy the masters into the model."""
        self.student.publish()

    def _tensors(self) -> dict[str, Tensor]:
        """Return all tensors that a checkpoint holds."""
        return optimizer.pack(
            self.masters,
            self.best,
            self.optimizer,
        )

    def _train(self) -> TrainResult:
        """Train from the last checkpoint, or the prepared state, to the adapter."""
        self._resume()
        self.prepared = True
        self.counted_until = time.monotonic()
        self.emit(Progress(stage=STAGE, done=self.state.step, total=self.steps, unit="steps"))
        state = self.state
        while True:
            if self._check_is_due():
                self._check_heldout()
            finished = state.stopped or state.step == self.steps
            if finished or (state.step > 0 and state.step % self.config.checkpoint_every == 0):
                self._save_checkpoint()
            if finished:
                return self._result("no gain" if state.stopped else "all steps")
            self._stop_if_asked()
            if state.step > 0 and self.peers.decide(self.job.should_finish()):
                return self._finish_early()
            self._make_step()

    def _finish_early(self) -> TrainResult:
        """Make a last held-out check, and return the result.

        The checkpoint is written before, so that a resumed training does not see this check.
        """
        self._save_checkpoint()
        if not self.state.history or self.state.history[-1]["step"] != self.state.step:
            self._check_heldout(last=True)
        return self._result("asked")

    def _make_step(self) -> None:
        """Compute the gradients of a step, clip them, and change the weights."""
        config = self.config
        state = self.state
        started = time.monotonic()
        step = self._compute_within_memory()
        for master in self.masters.values():
            master.grad = None
        for master, gradient in zip(step.trained, step.gradients, strict=True):
            master.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(step.trained, config.clip_norm).item()
        if not (math.isfinite(step.loss) and math.isfinite(norm)):
            raise faults.not_finite(
                state.step + 1,
                self.hardware.dtype,
                self.rate_setting,
            )
        for group, rate in zip(self.optimizer.param_groups, step.rates, strict=True):
            group["lr"] = rate
        self.optimizer.step()
        self._publish()
        state.step += 1
        state.add(step.loss, step.entropy)
        seconds = time.monotonic() - started
        self.meter.record_step(
            state.step,
            step.loss,
            max(step.rates),
            step.tokens,
            seconds,
        )

    def _compute_within_memory(self) -> Gradients:
        """Return the gradients of the next step, with its random seed.

        If a GPU runs out of memory, the step is repeated with smaller parts, to the same result.
        """
        while True:
            torch.manual_seed(torch_seed(self.config.seed, self.state.step, self.peers.rank))
            try:
                return self._compute_gradients()
            except torch.OutOfMemoryError as error:
                detail = str(error)
            # The exception's frames held the step's graphs, which are only freed here.
            if not self._shrink_plan():
                raise faults.out_of_memory(detail)

    def _shrink_plan(self) -> bool:
        """Keep no graphs, then halve the micro-batches; return False if neither is possible.

        A single text cannot be divided, and several processes wait for each other.
        """
        plan = self.plan
        half = plan.micro_batch_tokens // 2
        if self.peers.count > 1 or (not self.keeps_graphs and half < self.config.max_tokens):
            return False
        if self.keeps_graphs:
            self.plan = replace(plan, graph_bytes=0.0)
            change = "no graphs are kept, so each text is now encoded twice"
        else:
            self.plan = replace(plan, micro_batch_tokens=half)
            change = f"micro-batches now have {half:,} tokens"
        if self.hardware.device != "cpu":
            torch.cuda.empty_cache()
        text = f"Memory ran out at step {self.state.step + 1}: {change}."
        self.emit(Warned(stage=STAGE, text=text))
        return True

    def _check_is_due(self) -> bool:
        """Return whether a check is due: at the start, every `eval_every` steps and at the end.

        A check that `history` already has is not repeated after a resume. Without held-out queries
        losses are noted instead, some twenty times.
        """
        state = self.state
        if state.history and state.history[-1]["step"] == state.step:
            return False
        every = self.config.eval_every
        if self.pool is None:
            if state.step == 0:
                return False
            every = max(1, self.steps // 20)
        return state.step % every == 0 or state.step == self.steps

    def _check_heldout(self, last: bool = False) -> None:
        """Measure on the held-out pool, and keep the best adapter so far.

        Stops the training when the patience is used up, unless the check is the `last`.
        """
        state = self.state
        if self.pool is None:
            return state.note()
        queries = self.encoder.queries(self.pool_queries)
        chunks = self._pool_vectors(self.pool)
        if self.config.augmentation:
            queries, chunks = join_black_box(
                self.data,
                self.pool,
                queries,
                chunks,
            )
        similarity = self.student.text_model.similarity
        figures = measure(
            queries,
            chunks,
            self.pool.positives,
            similarity,
        )
        better = state.record(figures)
        if better:
            self.best = self.student.snapshot()
        is_patient = self.config.keep != "best" or state.stale < self.config.patience
        state.stopped = not last and not is_patient
        event = HeldOut(
            step=state.step,
            hit_at_10=round(figures.hit_at_10, 3),
            ndcg_at_10=round(figures.ndcg_at_10, 3),
            best=better,
            synthetic=self.data.heldout_synthetic,
        )
        self.emit(event)

    def _pool_vectors(self, pool: HeldOutPool) -> FloatArray:
        """Return the present vectors (p, d) of the chunks that are ranked for held-out queries."""
        if self.pool_chunks is None:
            self.pool_chunks = self.student.chunk_rows([self.data.chunks[i] for i in pool.chunks])
        return self.encoder.chunks(self.pool_chunks)

    def _stop_if_asked(self) -> None:
        """Raise CancelledError, after a checkpoint, if the training should stop."""
        if not self.peers.decide(self.job.should_stop()):
            return
        if self.prepared:
            self._save_checkpoint()
        raise faults.cancelled(
            self.state.step,
            self.steps,
            self.name,
        )

    def _count_seconds(self) -> None:
        """Add the time since the last call to what the training has taken."""
        now = time.monotonic()
        self.state.seconds += now - self.counted_until
        self.counted_until = now

    def _save_checkpoint(self) -> None:
        """Write a checkpoint; of several processes, only the leading one does."""
        self._count_seconds()
        if self.peers.leads:
            checkpoint.save(
                self.job.folder,
                self.key,
                self.state,
                self._tensors(),
            )

    def _resume(self) -> None:
        """Go on from the newest checkpoint, if there is one. Only the leading process reads it."""
        newest = None
        if self.peers.leads:
            newest = checkpoint.load_newest(self.job.folder, self.key)
        newest = self.peers.decide(newest)
        if newest is None:
            return
        self.state, tensors = newest
        self.best = optimizer.restore(
            tensors,
            self.masters,
            self.optimizer,
        )
        self._publish()
        self.report_choice(
            f"first step{self.steps_suffix}",
            self.state.step,
            "a checkpoint of the same model, data and settings was found",
        )

    def _result(self, ended: Ended) -> TrainResult:
        """Write the best adapter if held-out checks choose it, otherwise that of the last step."""
        self._count_seconds()
        state = self.state
        why = self._explain_end(ended)
        if why:
            self.report_choice(
                f"steps{self.steps_suffix}",
                state.step,
                why,
            )
        weights = self.best if self.chooses_step else self.student.snapshot()
        adapter = self.job.folder / "adapter"
        if self.peers.leads:
            tensors = weights | self.student.untrained
            write_adapter(
                adapter,
                self.student.adapter_settings,
                tensors,
                self.student.metadata,
            )
        best_step = state.step
        best_ndcg: float | None = None
        if self.chooses_step and state.best_step is not None:
            best_step = state.best_step
            best_ndcg = state.best_metric
        elif state.history:
            best_ndcg = state.history[-1].get("ndcg_at_10")
        return TrainResult(
            adapter=adapter,
            steps=state.step,
            best_step=best_step,
            best_ndcg_at_10=best_ndcg,
            history=state.history,
            ended=ended,
            seconds=state.seconds,
        )

    def report_choice(
        self,
        setting: str,
        value: object,
        reason: str,
    ) -> None:
        """Report an automatic choice and its reason."""
        self.emit(Choice(stage=STAGE, setting=setting, value=str(value), reason=reason))
