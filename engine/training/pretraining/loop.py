"""Masked-language modelling on the corpus (METHODS.md §3, PT).

It trains the layers that fine-tuning trains, so that the result is an ordinary adapter, or all
other weights, which the adapter then holds as well. The head that guesses the words is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.core.text import format_count
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.optimizer import learning_rate
from engine.training.compute.workers import Workers
from engine.training.heldout import build_pool
from engine.training.job import Job
from engine.training.loop import Ended, Gradients, Loop, Setup, TrainResult, prepare
from engine.training.model.student import Student
from engine.training.pretraining.masked_batches import MaskedBatches, MaskedText
from engine.training.pretraining.mlm_head import MaskedLanguageHead

_MAX_SCORES = 2**28
"""Maximum number of scores of a micro-batch: a gigabyte in float32."""
_HEAD_ALONE = 0.2
"""Share of the steps in which a fresh head learns alone, so that its noise spares the adapter."""
_FRESH_HEAD_RATE = 1e-3
"""Minimum peak learning rate of a fresh head."""


def masked_gradients(
    student: Student,
    head: MaskedLanguageHead,
    texts: Sequence[MaskedText],
    workers: Workers,
    budget: int,
    *,
    head_alone: bool = False,
) -> tuple[float, list[Tensor]]:
    """Return the mean cross-entropy of the hidden tokens of all texts, and its gradients.

    The float32 gradients are those of the student's tensors, then the head's; with `head_alone`
    only the head's. `budget` is the number of padded tokens of a micro-batch. The result equals
    that of one big batch.
    """
    hidden = sum(len(text.places) for text in texts)
    lengths = [len(text.ids) for text in texts]
    # Each hidden token has a score for each token of the vocabulary.
    max_tokens = int(_MAX_SCORES * sum(lengths) / hidden / head.vocabulary)
    batches = micro_batches(lengths, min(budget, max_tokens))
    parameters = head.working
    if not head_alone:
        parameters = [*student.working, *head.working]
    student.training_mode()

    def compute(micro: MicroBatch) -> tuple[float, list[Tensor]]:
        """Return what a micro-batch contributes to the loss and to each gradient."""
        chosen = [texts[place] for place in micro.places]
        with torch.set_grad_enabled(not head_alone):
            states = student.token_states([text.ids.tolist() for text in chosen])  # (t, d)
        places, targets = _join_targets(chosen, student.device)
        scores = head.scores(states[places])  # (k, v)
        summed_loss = torch.nn.functional.cross_entropy(
            scores,
            targets,
            reduction="sum",
        )
        loss = summed_loss / hidden
        gradients = torch.autograd.grad(
            loss,
            parameters,
            allow_unused=True,
            materialize_grads=True,
        )
        return loss.item(), [gradient.float() for gradient in gradients]

    total_loss = 0.0
    total: list[Tensor] = []
    # Gradients are added as they come in, as in `grad_cache`.
    for loss, gradients in workers.in_order(compute, batches):
        total_loss += loss
        if total:
            torch._foreach_add_(total, gradients)
        total = total or gradients
    return total_loss, total


def _join_targets(texts: Sequence[MaskedText], device: str) -> tuple[Tensor, Tensor]:
    """Return places (k,) of the hidden tokens in the concatenated texts, and the originals (k,)."""
    places = []
    targets = []
    start = 0
    for text in texts:
        places.append(torch.from_numpy(text.places + start))
        targets.append(torch.from_numpy(text.targets))
        start += len(text.ids)
    return torch.cat(places).to(device), torch.cat(targets).to(device)


def pretrain(job: Job) -> TrainResult:
    """Pre-train a LoRA adapter on the chunks.

    Resuming, stopping, finishing and errors are as in `train`. With the method PT, held-out checks
    stop it and choose the best step, as in fine-tuning. With PT-FT the last step is the result and
    nothing is measured: masked words say little about search, and fine-tuning follows. Ask
    `engine.training.pretraining.mlm_head.why_unsuitable` before.
    """
    whole = job.config.pretrain_weights == "all"
    # With PT-FT fine-tuning reports the choices.
    report = job.config.method == "PT"
    with prepare(job, report=report, whole=whole) as setup:
        return _Pretraining(setup).run()


def describe_new_head(alone: int) -> str:
    """Return why the head is new, and what becomes of it; it learns alone for `alone` steps."""
    first = ""
    if alone:
        first = f"it learns alone for {format_count(alone, 'step')}, and "
    return f"the model's folder has none; {first}it is discarded after pre-training"


class _Pretraining(Loop):
    """Pre-training: each step's loss is that of guessing masked words.

    `steps_alone`: the number of steps in which only the head is trained.
    """

    name = "Pre-training"
    steps_suffix = " of pre-training"
    rate_setting = "pretrain_learning_rate"

    def __init__(self, setup: Setup) -> None:
        data = setup.job.data
        config = setup.job.config
        pool = None
        if config.method == "PT":
            pool = build_pool(data, config)
        super().__init__(
            setup,
            config.pretrain_steps,
            pool,
            setup.key(before=["pre-training"]),
        )
        self.batches = MaskedBatches(
            self.student,
            data.chunks,
            config,
            self._stop_if_asked,
        )
        self.head = MaskedLanguageHead(
            self.student,
            self.batches.token_counts,
            config.seed,
        )
        self.steps_alone = 0
        if self.head.fresh:
            self.steps_alone = round(_HEAD_ALONE * config.pretrain_steps)
        self.adapter_masters = list(self.student.masters.values())
        self.head_masters = list(self.head.masters.values())
        self.optimizer = self._adamw(self.adapter_masters, self.head_masters)

    @property
    def masters(self) -> dict[str, Tensor]:
        """The adapter's tensors and the head's."""
        masters = super().masters
        for name, tensor in self.head.masters.items():
            masters[f"head/{name}"] = tensor
        return masters

    def run(self) -> TrainResult:
        """Train from the last checkpoint, or the base model, to the adapter."""
        setting = "head for masked words"
        if self.head.fresh:
            self.report_choice(
                setting,
                "a new one",
                describe_new_head(self.steps_alone),
            )
        else:
            self.report_choice(setting, "the model's own", "its folder holds the weights")
        return self._train()

    def _publish(self) -> None:
        super()._publish()
        self.head.publish()

    def _compute_gradients(self) -> Gradients:
        """Return the gradients of the next step's masked texts."""
        step = self.state.step
        budget = self.plan.micro_batch_tokens
        texts = self.batches.batch(step)
        head_alone = step < self.steps_alone
        value, gradients = masked_gradients(
            self.student, self.head, texts, self.workers, budget, head_alone=head_alone
        )
        trained = self.head_masters
        if not head_alone:
            trained = [*self.adapter_masters, *self.head_masters]
        tokens = sum(len(text.ids) for text in texts)
        return Gradients(
            loss=value, trained=trained, gradients=gradients, rates=self._rates(), tokens=tokens
        )

    def _rates(self) -> tuple[float, float]:
        """Return the learning rates of the adapter and of the head at this step."""
        config = self.config
        step = self.state.step
        steps = config.pretrain_steps
        peak = config.pretrain_learning_rate
        adapter_rate = 0.0
        adapter_step = step - self.steps_alone
        if adapter_step >= 0:
            adapter_steps = steps - self.steps_alone
            adapter_rate = learning_rate(
                adapter_step,
                adapter_steps,
                peak,
                config.warmup,
            )
        head_peak = peak
        if self.head.fresh:
            head_peak = max(peak, _FRESH_HEAD_RATE)
        return adapter_rate, learning_rate(step, steps, head_peak, config.warmup)

    def _check_is_due(self) -> bool:
        """Return whether a check is due: none while only the head is trained, except at step 0."""
        return super()._check_is_due() and not 0 < self.state.step <= self.steps_alone

    def _explain_end(self, ended: Ended) -> str:
        """See `Loop`."""
        if self.pool is None:
            return ""
        if not self.chooses_step:
            return "the last one is kept (training.keep)"
        return (
            f"the adapter of step {self.state.best_step} is kept, which did best in the held-out"
            " checks"
        )
