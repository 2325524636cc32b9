"""Masked-language modelling on the corpus (METHODS.md §3, PT): guess hidden words of the chunks, train the LoRA layers.

It trains the layers that fine-tuning trains, so that its adapter is one like any other. The head that guesses the words
is needed for this alone and is thrown away.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.events import Choice, Emit, HeldOut
from engine.training import checkpoint, faults, optimizer_state
from engine.training.adapter_folder import write_adapter
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.encoding import StudentEncoder
from engine.training.heldout import HeldOutPool, build_pool, measure
from engine.training.masked_batches import MaskedBatches
from engine.training.masked_loss import masked_gradients
from engine.training.meter import Meter
from engine.training.mlm_head import MaskedLanguageHead
from engine.training.plan import Plan, look, make_plan
from engine.training.schedule import learning_rate
from engine.training.student import Student
from engine.training.trainer import STAGE, TrainResult
from engine.training.workers import Workers, choose_workers

_HEAD_ALONE = 0.2  # share of the steps in which a fresh head learns alone, so that its noise does not reach the adapter
_FRESH_HEAD_RATE = 1e-3


def pretrain(
    model: ModelFolder,
    data: TrainingData,
    config: TrainingConfig,
    hardware: Hardware,
    folder_checkpoints: Path,
    emit: Emit,
    should_stop: Callable[[], bool],
    should_finish: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Pre-train a LoRA adapter for `model` on `data.chunks`; as `train` as to resuming, stopping, finishing and errors.

    With the method PT, held-out checks stop it and choose the best step, as in fine-tuning. With PT-FT the last step is
    the result and nothing is measured: masked words say little about search, and what follows is to make use of them.
    Ask `engine.training.mlm_head.unsuitable` before.
    """
    with faults.memory_errors():
        student = Student(model, config, hardware)
        plan = make_plan(student, config, hardware, look(hardware))
        for choice in plan.choices if config.method == "PT" else ():  # fine-tuning tells them where it follows
            emit(Choice(stage=STAGE, setting=choice.setting, value=choice.value, reason=choice.reason))
        student.rework_blocks(checkpointing=plan.checkpointing, compiled=plan.compiled)
        with Workers(*choose_workers(student, config, hardware)) as workers:
            run = _Pretraining(student, data, config, hardware, folder_checkpoints, emit, should_stop, workers, plan)
            return run.run(should_finish)


class _Pretraining:
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
    ) -> None:
        self.student, self.data, self.config, self.hardware = student, data, config, hardware
        self.folder, self.emit, self.should_stop, self.workers = folder, emit, should_stop, workers
        self.key = _key(student.model, data, config, hardware)
        self.state, self.best, self.prepared = checkpoint.TrainingState(), student.snapshot(), False
        self.batches = MaskedBatches(student, data.chunks, config, self._stop_if_asked)
        self.head = MaskedLanguageHead(student, self.batches.token_counts, config.seed)
        self.alone = round(_HEAD_ALONE * config.pretrain_steps) if self.head.fresh else 0
        self.budget = plan.micro_batch_tokens
        self.adapter, self.own = list(student.masters.values()), list(self.head.masters.values())
        self.optimizer = torch.optim.AdamW(
            [{"params": self.adapter}, {"params": self.own}],
            lr=0.0,
            weight_decay=config.weight_decay,
            fused=plan.fused or None,
        )
        self.pool: HeldOutPool | None = build_pool(data, config) if config.method == "PT" else None
        self.meter = Meter(config.pretrain_steps, hardware.device, emit)

    @property
    def masters(self) -> dict[str, Tensor]:
        """Everything that is trained."""
        return self.student.masters | {f"head/{name}": tensor for name, tensor in self.head.masters.items()}

    def run(self, should_finish: Callable[[], bool]) -> TrainResult:
        """From the last checkpoint, or the base model, to the adapter."""
        self._tell_head()
        self._resume()
        self.prepared = True
        state, config = self.state, self.config
        while True:
            if self._check_is_due():
                self._check_heldout()
            finished = state.stopped or state.step == config.pretrain_steps
            if finished or (state.step > 0 and state.step % config.checkpoint_every == 0):
                self._save_checkpoint()
            if finished:
                return self._result("no gain" if state.stopped else "all steps")
            self._stop_if_asked()
            if state.step > 0 and should_finish():
                return self._finish_early()
            self._step()

    def _tell_head(self) -> None:
        value, why = "the model's own", "its folder holds the weights"
        if self.head.fresh:
            value = "a new one"
            why = f"the model's folder holds none; it learns alone for {self.alone} steps and is thrown away in the end"
        self.emit(Choice(stage=STAGE, setting="head for masked words", value=value, reason=why))

    def _finish_early(self) -> TrainResult:
        """As in fine-tuning: the checkpoint knows nothing of it."""
        self._save_checkpoint()
        if self.pool is not None and self.state.history[-1]["step"] != self.state.step:
            self._check_heldout(last=True)
        return self._result("asked")

    def _step(self) -> None:
        config, state = self.config, self.state
        started = time.monotonic()
        torch.manual_seed(config.seed * 1_000_003 + state.step)
        texts = self.batches.batch(state.step)
        alone = state.step < self.alone
        trained = self.own if alone else [*self.adapter, *self.own]
        value, slopes = masked_gradients(self.student, self.head, texts, self.workers, self.budget, head_alone=alone)
        for master in (*self.adapter, *self.own):
            master.grad = None
        for master, slope in zip(trained, slopes, strict=True):
            master.grad = slope
        norm = torch.nn.utils.clip_grad_norm_(trained, config.clip_norm).item()
        if not (math.isfinite(value) and math.isfinite(norm)):
            raise faults.not_finite(state.step + 1, self.hardware.dtype, "pretrain_learning_rate")
        rates = self._rates()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self.optimizer.step()
        self.student.publish()
        self.head.publish()
        state.step += 1
        state.add(value, 0.0)
        tokens = sum(len(text.ids) for text in texts)
        self.meter.step(state.step, value, max(rates), tokens, time.monotonic() - started)

    def _rates(self) -> tuple[float, float]:
        """Learning rates of the adapter and of the head at this step."""
        config, step, alone = self.config, self.state.step, self.alone
        peak, warmup, steps = config.pretrain_learning_rate, config.warmup, config.pretrain_steps
        adapter = 0.0 if step < alone else learning_rate(step - alone, steps - alone, peak, warmup)
        return adapter, learning_rate(step, steps, max(peak, _FRESH_HEAD_RATE) if self.head.fresh else peak, warmup)

    def _check_is_due(self) -> bool:
        """At the start, then every `eval_every` steps and at the end, as soon as the adapter is trained."""
        state, config = self.state, self.config
        if self.pool is None or (state.history and state.history[-1]["step"] == state.step):
            return False
        if 0 < state.step <= self.alone:
            return False
        return state.step % config.eval_every == 0 or state.step == config.pretrain_steps

    def _check_heldout(self, last: bool = False) -> None:
        """Measure on the held-out pool, as fine-tuning does; keep the best adapter so far."""
        assert self.pool is not None
        state, student, data = self.state, self.student, self.data
        encoder = StudentEncoder(student, self.workers, self.budget, self._stop_if_asked)
        queries = encoder.queries(student.query_rows([data.heldout_queries[i] for i in self.pool.queries]))
        chunks = encoder.chunks(student.chunk_rows([data.chunks[i] for i in self.pool.chunks]))
        hit, ndcg = measure(queries, chunks, self.pool.positives)
        better = state.best_step is None or ndcg > state.best_metric
        if better:
            self.best = student.snapshot()
        state.record(hit, ndcg, better)
        state.stopped = not last and state.stale >= self.config.patience
        self.emit(HeldOut(step=state.step, hit_at_10=round(hit, 3), ndcg_at_10=round(ndcg, 3), best=better))

    def _stop_if_asked(self) -> None:
        if not self.should_stop():
            return
        if self.prepared:
            self._save_checkpoint()
        raise faults.cancelled(self.state.step, self.config.pretrain_steps, "Pre-training")

    def _save_checkpoint(self) -> None:
        tensors = optimizer_state.packed(self.masters, self.best, self.optimizer)
        checkpoint.save(self.folder, self.key, self.state, tensors)

    def _resume(self) -> None:
        found = checkpoint.load_newest(self.folder, self.key)
        if found is None:
            return
        self.state, tensors = found
        self.best = optimizer_state.restore(tensors, self.masters, self.optimizer)
        self.student.publish()
        self.head.publish()
        why = "a checkpoint of the same model, data and settings was found"
        self.emit(Choice(stage=STAGE, setting="first step of pre-training", value=str(self.state.step), reason=why))

    def _result(self, ended: Literal["all steps", "no gain", "asked"]) -> TrainResult:
        """The best adapter where held-out checks were made, otherwise that of the last step."""
        state = self.state
        if self.pool is None or state.best_step is None:
            adapter = write_adapter(self.folder, self.student, self.student.snapshot())
            return TrainResult(adapter, state.step, state.step, None, state.history, ended)
        adapter = write_adapter(self.folder, self.student, self.best)
        why = f"the adapter of step {state.best_step} is kept, which did best in the held-out checks"
        self.emit(Choice(stage=STAGE, setting="steps of pre-training", value=str(state.step), reason=why))
        return TrainResult(adapter, state.step, state.best_step, state.best_metric, state.history, ended)


def _key(model: ModelFolder, data: TrainingData, config: TrainingConfig, hardware: Hardware) -> str:
    parts = [model.fingerprint, data.digest(), asdict(config), hardware.device.partition(":")[0], hardware.dtype]
    return hashlib.sha256(json.dumps(["pre-training", *parts], sort_keys=True).encode()).hexdigest()
