"""What fine-tuning and pre-training share: steps, held-out checks, checkpoints, stopping early,
resuming.
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
from engine.encoders.geometry import OwnLengths
from engine.training import checkpoint
from engine.training.compute import faults, optimizer
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.plan import Plan, free_memory, make_plan
from engine.training.compute.workers import Workers, choose_workers
from engine.training.data import FloatArray
from engine.training.heldout import HeldOutPool, measure
from engine.training.job import Job
from engine.training.meter import Meter
from engine.training.model.augmentation import beside_black_box
from engine.training.model.lora import write_adapter
from engine.training.model.student import Rows, Student, StudentEncoder

STAGE = "train"
_LENGTH_SAMPLE = 256
Ended = Literal["all steps", "no gain", "asked"]


@dataclass(frozen=True, slots=True)
class TrainResult:
    """`adapter`: a folder with the best weights.

    `best_step` 0 means that every later check was clearly worse than the first.

    Where `training.keep` is last, it is the last one, however it did. `best_ndcg_at_10` is in
    percent, None without held-out queries. `history`: one entry per held-out check with step, loss,
    target_entropy (nats; both means since the entry before), hit_at_10, ndcg_at_10; without checks
    some twenty of the former three.
    `seconds`: what training took over all runs that it was resumed in, without loading the model.
    `ended` says why it ended: all steps were made, held-out checks showed no gain any more, or the
    user asked for it.
    """

    adapter: Path
    steps: int
    best_step: int
    best_ndcg_at_10: float | None
    history: list[dict[str, float | int]]
    ended: Ended = "all steps"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Setup:
    """A job with its model loaded, and how its steps are computed."""

    job: Job
    student: Student
    workers: Workers
    plan: Plan
    peers: Peers = ALONE

    def key(self, before: Sequence[str] = (), after: Sequence[str] = ()) -> str:
        """Names the training by all that decides its result, and what else is given: a
        checkpoint of another is not resumed.
        """
        job = self.job
        device = job.hardware.device.partition(":")[0]
        dtype = job.hardware.dtype
        own = [job.model.fingerprint, job.data.digest(), asdict(job.config), device, dtype]
        return json_sha256([*before, *own, *after])


@contextmanager
def prepared(
    job: Job, peers: Peers = ALONE, *, report: bool = True, whole: bool = False
) -> Iterator[Setup]:
    """Load the model and decide how steps are computed; `report`: emit these choices.

    Missing memory is a ResourceError.
    """
    config = job.config
    hardware = job.hardware
    with faults.memory_errors():
        student = Student(job.model, config, hardware, whole=whole)
        free = max(0, free_memory(hardware, peers.local_count) - student.state_bytes)
        plan = peers.decide(make_plan(student, config, hardware, free))
        for choice in plan.choices if report else ():
            job.emit(
                Choice(
                    stage=STAGE, setting=choice.setting, value=choice.value, reason=choice.reason
                )
            )
        if plan.checkpointing:
            student.checkpoint_blocks()
        with Workers(*peers.decide(choose_workers(student, config, hardware, free))) as workers:
            yield Setup(job, student, workers, plan, peers)


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of a step: those of `trained`, which are some or all of the masters.

    `loss` and `entropy` (of the targets, in nats) are means over the step. `rates`: learning rates
    of the optimizer's groups. `tokens`: how many were trained on.
    """

    loss: float
    trained: Sequence[Tensor]
    gradients: Sequence[Tensor]
    rates: Sequence[float]
    tokens: int
    entropy: float = 0.0


class Loop(ABC):
    """One training.

    A subclass sets `optimizer`, over all masters, gets itself ready, and then calls `_repeat`.
    """

    name: ClassVar[str]
    of_what: ClassVar[str]
    """Follows "steps" where the number of steps is reported."""
    rate_setting: ClassVar[str]
    optimizer: torch.optim.AdamW

    def __init__(self, setup: Setup, steps: int, pool: HeldOutPool | None, key: str) -> None:
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
        if pool:
            queries = [self.data.heldout_queries[i] for i in pool.queries]
        else:
            queries = []
        self.pool_queries: Rows = self.student.query_rows(queries)
        self.pool_chunks: Rows | None = None
        self.encoder = StudentEncoder(
            self.student,
            self.workers,
            self.plan.micro_batch_tokens,
            self._stop_if_asked,
            self.peers,
        )
        if self.config.augmentation == "lambda-mafin":
            self._match_lengths()
        self.meter = Meter(steps, self.hardware.device, self.emit)
        self.state, self.best, self.prepared = (
            checkpoint.TrainingState(),
            self.student.snapshot(),
            False,
        )
        self.counted_until = time.monotonic()

    def _match_lengths(self) -> None:
        """λ-Mafin: the small model's mean length, untouched, is that of the black box's unit
        vectors, over a sample of chunks.
        """
        places = np.random.default_rng([self.config.seed, 6]).permutation(len(self.data.chunks))[
            :_LENGTH_SAMPLE
        ]
        vectors = self.encoder.chunks(
            self.student.chunk_rows([self.data.chunks[i] for i in places])
        )
        self.student.text_model.geometry = OwnLengths(
            1 / float(np.linalg.norm(vectors, axis=1).mean())
        )

    def _adamw(self, *groups: Iterable[Tensor]) -> torch.optim.AdamW:
        """Every step sets the learning rates of the groups anew."""
        given = [{"params": list(group)} for group in groups]
        decay = self.config.weight_decay
        fused = self.plan.fused or None
        return torch.optim.AdamW(given, lr=0.0, weight_decay=decay, fused=fused)

    @abstractmethod
    def _gradients(self) -> Gradients:
        """Of the step that is due."""

    @abstractmethod
    def _why(self, ended: Ended) -> str:
        """Why the adapter that is kept is this one; empty where nothing is to be said."""

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
        """All that a checkpoint holds."""
        return optimizer.packed(self.masters, self.best, self.optimizer)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `_tensors` gave."""
        self.best = optimizer.restore(tensors, self.masters, self.optimizer)
        self._publish()

    def _repeat(self) -> TrainResult:
        """From the last checkpoint, or what was made ready, to the adapter."""
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
            self._step()

    def _finish_early(self) -> TrainResult:
        """Measure a last time.

        The checkpoint is written before, so that a resumed training knows nothing of this.
        """
        self._save_checkpoint()
        if not self.state.history or self.state.history[-1]["step"] != self.state.step:
            self._check_heldout(last=True)
        return self._result("asked")

    def _step(self) -> None:
        config = self.config
        state = self.state
        started = time.monotonic()
        found = self._seeded_gradients()
        for master in self.masters.values():
            master.grad = None
        for master, gradient in zip(found.trained, found.gradients, strict=True):
            master.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(found.trained, config.clip_norm).item()
        if not (math.isfinite(found.loss) and math.isfinite(norm)):
            raise faults.not_finite(state.step + 1, self.hardware.dtype, self.rate_setting)
        for group, rate in zip(self.optimizer.param_groups, found.rates, strict=True):
            group["lr"] = rate
        self.optimizer.step()
        self._publish()
        state.step += 1
        state.add(found.loss, found.entropy)
        self.meter.step(
            state.step, found.loss, max(found.rates), found.tokens, time.monotonic() - started
        )

    def _seeded_gradients(self) -> Gradients:
        """Of the step that is due.

        One that a GPU has no memory for is made again with less at a time, to the same result.
        """
        while True:
            torch.manual_seed(
                self.config.seed * 1_000_003 + self.state.step + self.peers.rank * 2**50
            )
            try:
                return self._gradients()
            except torch.OutOfMemoryError as error:
                refused = str(error)
            # Only here are the step's graphs, which the exception's frames held, let go.
            if not self._make_do_with_less():
                raise faults.out_of_memory(refused)

    def _make_do_with_less(self) -> bool:
        """Keep no graphs, then halve the micro-batches; False where one text stands alone
        already, or others wait for us.
        """
        plan = self.plan
        keeps_graphs = plan.graph_bytes > 0
        half = plan.micro_batch_tokens // 2
        if self.peers.count > 1 or (not keeps_graphs and half < self.config.max_tokens):
            return False
        tokens = plan.micro_batch_tokens if keeps_graphs else half
        self.plan = replace(plan, graph_bytes=0.0, micro_batch_tokens=tokens)
        if self.hardware.device != "cpu":
            torch.cuda.empty_cache()
        if keeps_graphs:
            done = "texts run twice, and no graphs are kept"
        else:
            done = f"micro-batches of {tokens:,} tokens"
        text = (
            f"Memory ran out at step {self.state.step + 1}; training continues with smaller"
            f" batches: {done}."
        )
        self.emit(Warned(stage=STAGE, text=text))
        return True

    def _check_is_due(self) -> bool:
        """At the start, every `eval_every` steps and at the end, once each, also where a check
        was broken off. Without held-out queries losses are noted in place of checks.
        """
        state = self.state
        if (state.history and state.history[-1]["step"] == state.step) or (
            self.pool is None and state.step == 0
        ):
            return False
        if self.pool is None:
            every = max(1, self.steps // 20)
        else:
            every = self.config.eval_every
        return state.step % every == 0 or state.step == self.steps

    def _check_heldout(self, last: bool = False) -> None:
        """Measure on the held-out pool; keep the best adapter so far; stop when the patience is
        used up, unless `last`.
        """
        state = self.state
        if self.pool is None:
            return state.note()
        queries = self.encoder.queries(self.pool_queries)
        chunks = self._pool_vectors(self.pool)
        if self.config.augmentation:
            queries, chunks = beside_black_box(
                self.data, queries, chunks, self.pool.chunks, self.pool.queries
            )
        found = measure(queries, chunks, self.pool.positives, self.student.text_model.similarity)
        better = state.record(found)
        if better:
            self.best = self.student.snapshot()
        state.stopped = (
            not last and self.config.keep == "best" and state.stale >= self.config.patience
        )
        event = HeldOut(
            step=state.step,
            hit_at_10=round(found.hit_at_10, 3),
            ndcg_at_10=round(found.ndcg_at_10, 3),
            best=better,
            synthetic=self.data.heldout_synthetic,
        )
        self.emit(event)

    def _pool_vectors(self, pool: HeldOutPool) -> FloatArray:
        """The present vectors (p, d) of the chunks that held-out queries are ranked in."""
        if self.pool_chunks is None:
            self.pool_chunks = self.student.chunk_rows([self.data.chunks[i] for i in pool.chunks])
        return self.encoder.chunks(self.pool_chunks)

    def _stop_if_asked(self) -> None:
        if not self.peers.decide(self.job.should_stop()):
            return
        if self.prepared:
            self._save_checkpoint()
        raise faults.cancelled(self.state.step, self.steps, self.name)

    def _count_seconds(self) -> None:
        """Add the time since the last call to what the training has taken."""
        now = time.monotonic()
        self.state.seconds += now - self.counted_until
        self.counted_until = now

    def _save_checkpoint(self) -> None:
        self._count_seconds()
        if self.peers.leads:
            checkpoint.save(self.job.folder, self.key, self.state, self._tensors())

    def _resume(self) -> None:
        found = self.peers.decide(
            checkpoint.load_newest(self.job.folder, self.key) if self.peers.leads else None
        )
        if found is None:
            return
        self.state, tensors = found
        self._restore(tensors)
        self.choose(
            f"first step{self.of_what}",
            self.state.step,
            "a checkpoint of the same model, data and settings was found",
        )

    def _result(self, ended: Ended) -> TrainResult:
        """The best adapter where held-out checks choose it, otherwise that of the last step."""
        self._count_seconds()
        state = self.state
        if why := self._why(ended):
            self.choose(f"steps{self.of_what}", state.step, why)
        if self.chooses_step:
            kept = self.best
        else:
            kept = self.student.snapshot()
        tensors = kept | self.student.untrained
        adapter = self.job.folder / "adapter"
        if self.peers.leads:
            write_adapter(adapter, self.student.adapter_settings, tensors, self.student.metadata)
        if not self.chooses_step or state.best_step is None:
            if state.history:
                last_ndcg = state.history[-1].get("ndcg_at_10")
            else:
                last_ndcg = None
            return TrainResult(
                adapter, state.step, state.step, last_ndcg, state.history, ended, state.seconds
            )
        return TrainResult(
            adapter,
            state.step,
            state.best_step,
            state.best_metric,
            state.history,
            ended,
            state.seconds,
        )

    def choose(self, setting: str, value: object, reason: str) -> None:
        """Report an automatic choice and its reason."""
        self.emit(Choice(stage=STAGE, setting=setting, value=str(value), reason=reason))
