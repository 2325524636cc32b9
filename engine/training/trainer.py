"""The training loop: batches → gradients → LoRA weights, with held-out checks, checkpoints, cancelling and resuming."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from engine.encoders.fingerprint import adapter_digest
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.events import Choice, Emit, HeldOut, Progress
from engine.training import checkpoint, faults, optimizer_state
from engine.training.adapter_folder import start_of, write_adapter
from engine.training.config import TrainingConfig
from engine.training.data import BatchSampler, FloatArray, TrainingData
from engine.training.encoding import StudentEncoder
from engine.training.gradients import BatchGradients
from engine.training.heldout import HeldOutPool, build_pool, measure
from engine.training.meter import Meter
from engine.training.objective import Objective
from engine.training.pair_scores import pair_scores
from engine.training.peers import ALONE, Peers
from engine.training.plan import Plan, look, make_plan
from engine.training.refresh import Refresh
from engine.training.schedule import learning_rate
from engine.training.student import Rows, Student
from engine.training.teachers import PairScores
from engine.training.workers import Workers, choose_workers

STAGE = "train"
_MINED = "the model's own best chunks that are not the evidence join the negatives"
_WHY = {
    True: "a GPU, a single core, dropout or little memory",
    False: "small matrices run faster side by side on one core each than on all cores one after another",
}


@dataclass(frozen=True, slots=True)
class TrainResult:
    """`adapter`: a peft folder with the best weights. `best_step` 0 means that no step beat what it began with.

    `best_ndcg_at_10` is in percent, None without held-out queries. `history`: one entry per held-out check with step,
    loss, target_entropy (nats; both means since the check before), hit_at_10, ndcg_at_10. `ended` says why it ended: all
    steps were made, held-out checks showed no gain any more, or the user asked for it.
    """

    adapter: Path
    steps: int
    best_step: int
    best_ndcg_at_10: float | None
    history: list[dict[str, float | int]]
    ended: Literal["all steps", "no gain", "asked"] = "all steps"


def train(
    model: ModelFolder,
    data: TrainingData,
    config: TrainingConfig,
    hardware: Hardware,
    folder_checkpoints: Path,
    emit: Emit,
    should_stop: Callable[[], bool],
    should_finish: Callable[[], bool] = lambda: False,
    start: Path | None = None,
    peers: Peers = ALONE,
) -> TrainResult:
    """Train a LoRA adapter for `model`; on a CPU the same input gives the same adapter to the bit, broken off or not.

    `start`: the peft folder of an adapter of the same shape to begin with, such as a pre-trained one. `peers`: the
    processes that train together; only the leading one asks, tells and writes (`engine.training.distributed`).

    Resumes from the newest sound checkpoint in `folder_checkpoints` that was made from the same model, data and recipe.
    `should_stop` is asked between steps and may wait, which no figure counts. `should_finish` is asked after each step:
    once it says so, a last held-out check is made and the best adapter so far is the result. No checkpoint remembers
    that: a training that is broken off after it goes on to its last step when resumed.
    Raises CancelledError after a checkpoint when `should_stop` says so; ResourceError when memory or disk runs out;
    StageError when the loss is no longer finite; ModelError for a model without places for LoRA.
    """
    with faults.memory_errors():
        student = Student(model, config, hardware)
        plan = peers.decide(make_plan(student, config, hardware, look(hardware, peers.count)))
        for choice in plan.choices:
            emit(Choice(stage=STAGE, setting=choice.setting, value=choice.value, reason=choice.reason))
        student.rework_blocks(checkpointing=plan.checkpointing, compiled=plan.compiled)
        count, threads = peers.decide(choose_workers(student, config, hardware, processes=peers.count))
        emit(Choice(stage=STAGE, setting="micro-batches at a time", value=str(count), reason=_WHY[count == 1]))
        with Workers(count, threads) as workers:
            training = _Training(
                student, data, config, hardware, folder_checkpoints, emit, should_stop, workers, plan, peers, start
            )
            return training.run(should_finish)


class _Training:
    def __init__(
        self,
        student: Student,
        data: TrainingData,
        config: TrainingConfig,
        hardware: Hardware,
        folder: Path,
        emit: Emit,
        should_stop: Callable[[], bool],
        workers: Workers,
        plan: Plan,
        peers: Peers,
        start: Path | None,
    ) -> None:
        self.data, self.config, self.hardware = data, config, hardware
        self.folder, self.emit, self.should_stop, self.workers = folder, emit, should_stop, workers
        self.key, self.start = _key(student.model, data, config, hardware, start), start
        self.student, self.plan, self.peers = student, plan, peers
        self.encoder = StudentEncoder(student, workers, plan.micro_batch_tokens, self._stop_if_asked, peers)
        self.masters = list(student.masters.values())
        self.optimizer = torch.optim.AdamW(
            self.masters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=plan.fused or None
        )
        self.sampler = BatchSampler(data, config)
        self.refresh = Refresh(data, config, self.sampler)
        self.pool = build_pool(data, config)
        self.pool_rows: tuple[Rows, Rows] | None = None
        self.state = checkpoint.TrainingState()
        self.best = student.snapshot()
        self.meter = Meter(config.steps, hardware.device, emit)
        self.prepared = False

    def run(self, should_finish: Callable[[], bool]) -> TrainResult:
        """From the last checkpoint, or the base model, to the adapter."""
        base = self.encoder.base_vectors(self.data, self.config, self._tell) if self.config.needs_vectors else None
        self.fixed = base[1] if base and self.config.side == "query" else None
        self.objective = Objective(self.config, base, self.hardware.device, self._pair_scores())
        self.gradients = BatchGradients(self.student, self.data, self.workers, self.plan, self.peers, self.fixed)
        if self.start is not None:  # not before: the teacher's vectors are those of the untouched encoder
            self.student.load(start_of(self.start, self.student))
            self.best = self.student.snapshot()
        self._resume()
        self.prepared = True
        state, config = self.state, self.config
        while True:
            if self._check_is_due():
                self._check_heldout()
            finished = state.stopped or state.step == config.steps
            if finished or (state.step > 0 and state.step % config.checkpoint_every == 0):
                self._save_checkpoint()
            if finished:
                return self._result("no gain" if state.stopped else "all steps")
            self._stop_if_asked()
            if state.step > 0 and self.peers.decide(should_finish()):
                return self._finish_early()
            if self.refresh.due(state.step):
                found = self.refresh.mine(self.student, self.encoder, self._tell)
                self.emit(Choice(stage=STAGE, setting="hard negatives", value=str(found), reason=_MINED))
            self._step()

    def _finish_early(self) -> TrainResult:
        """Measure a last time. The checkpoint is written before, so that a resumed training knows nothing of this."""
        state = self.state
        self._save_checkpoint()
        if self.pool is not None and state.history[-1]["step"] != state.step:
            self._check_heldout(last=True)
        kept = state.step if self.pool is None else state.best_step
        why = f"you asked to stop at step {state.step}; the adapter of step {kept} is kept"
        self.emit(Choice(stage=STAGE, setting="steps", value=str(state.step), reason=why))
        return self._result("asked")

    def _step(self) -> None:
        config, state = self.config, self.state
        started = time.monotonic()
        torch.manual_seed(config.seed * 1_000_003 + state.step + self.peers.rank * 2**50)
        batch = self.sampler.batch(state.step)
        loss, entropy = self.objective.of(batch)
        value, slopes, tokens = self.gradients.of(batch, loss)
        for master, slope in zip(self.masters, slopes, strict=True):
            master.grad = slope
        norm = torch.nn.utils.clip_grad_norm_(self.masters, config.clip_norm).item()
        if not (math.isfinite(value) and math.isfinite(norm)):
            raise faults.not_finite(state.step + 1, self.hardware.dtype)
        rate = learning_rate(state.step, config.steps, config.learning_rate, config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.student.publish()
        state.step += 1
        state.add(value, entropy)
        self.meter.step(state.step, value, rate, tokens, time.monotonic() - started)

    def _check_is_due(self) -> bool:
        """At the start, every `eval_every` steps and at the end, once each, also where a check was broken off."""
        state, config = self.state, self.config
        if self.pool is None or (state.history and state.history[-1]["step"] == state.step):
            return False
        return state.step % config.eval_every == 0 or state.step == config.steps

    def _check_heldout(self, last: bool = False) -> None:
        """Measure on the held-out pool; keep the best adapter so far; stop when the patience is used up, unless `last`."""
        assert self.pool is not None
        state, student = self.state, self.student
        vectors = self._pool_vectors(self.pool)
        hit, ndcg = measure(*vectors, self.pool.positives)
        better = state.best_step is None or ndcg > state.best_metric
        if better:
            self.best = student.snapshot()
        state.record(hit, ndcg, better)
        state.stopped = not last and state.stale >= self.config.patience
        self.emit(HeldOut(step=state.step, hit_at_10=round(hit, 3), ndcg_at_10=round(ndcg, 3), best=better))
        if state.stopped:
            why = f"no gain in {state.stale} held-out checks; the adapter of step {state.best_step} is kept"
            self.emit(Choice(stage=STAGE, setting="steps", value=str(state.step), reason=why))

    def _pool_vectors(self, pool: HeldOutPool) -> tuple[FloatArray, FloatArray]:
        """Of the held-out queries and of the chunks they are ranked in."""
        data, student = self.data, self.student
        if self.pool_rows is None:
            chunks = student.chunk_rows([data.chunks[i] for i in pool.chunks]) if self.fixed is None else []
            self.pool_rows = student.query_rows([data.heldout_queries[i] for i in pool.queries]), chunks
        queries = self.encoder.queries(self.pool_rows[0])
        if self.fixed is not None:
            return queries, self.fixed[pool.chunks].astype(np.float32)
        return queries, self.encoder.chunks(self.pool_rows[1])

    def _pair_scores(self) -> PairScores | None:
        if self.config.used_teacher != "cross-encoder":
            return None
        given = self.data, self.hardware, self.workers, self.plan.micro_batch_tokens
        return pair_scores(*given, self._stop_if_asked, self.peers)

    def _tell(self, done: int, total: int) -> None:
        self.emit(Progress(stage=STAGE, done=done, total=total, unit="chunks"))

    def _stop_if_asked(self) -> None:
        if not self.peers.decide(self.should_stop()):
            return
        if self.prepared:
            self._save_checkpoint()
        raise faults.cancelled(self.state.step, self.config.steps)

    def _save_checkpoint(self) -> None:
        if not self.peers.leads:
            return
        tensors = optimizer_state.packed(self.student.masters, self.best, self.optimizer)
        checkpoint.save(self.folder, self.key, self.state, tensors | self.refresh.tensors())

    def _resume(self) -> None:
        found = self.peers.decide(checkpoint.load_newest(self.folder, self.key) if self.peers.leads else None)
        if found is None:
            return
        self.state, tensors = found
        self.best = optimizer_state.restore(tensors, self.student.masters, self.optimizer)
        self.student.publish()
        self.refresh.load(tensors)
        why = "a checkpoint of the same model, data and settings was found"
        self.emit(Choice(stage=STAGE, setting="first step", value=str(self.state.step), reason=why))

    def _result(self, ended: Literal["all steps", "no gain", "asked"]) -> TrainResult:
        state = self.state
        tensors = self.student.snapshot() if self.pool is None else self.best
        adapter = write_adapter(self.folder, self.student, tensors) if self.peers.leads else self.folder / "adapter"
        if self.pool is None or state.best_step is None:
            return TrainResult(adapter, state.step, state.step, None, state.history, ended)
        return TrainResult(adapter, state.step, state.best_step, state.best_metric, state.history, ended)


def _key(model: ModelFolder, data: TrainingData, config: TrainingConfig, hardware: Hardware, start: Path | None) -> str:
    """Names the training: a checkpoint of another one must not be resumed."""
    parts = [model.fingerprint, data.digest(), asdict(config), hardware.device.partition(":")[0], hardware.dtype]
    parts += [adapter_digest(start)] if start else []
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
