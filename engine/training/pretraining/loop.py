"""Masked-language modelling on the corpus (METHODS.md §3, PT): guess hidden words of the chunks,
train LoRA layers or all weights.

It trains the layers that fine-tuning trains, so that its adapter is one like any other, or all
other weights, which the adapter then holds beside them. The head that guesses the words is needed
for this alone and is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.optimizer import learning_rate
from engine.training.compute.workers import Workers
from engine.training.heldout import build_pool
from engine.training.job import Job
from engine.training.loop import Ended, Gradients, Loop, Setup, TrainResult, prepared
from engine.training.model.student import Student
from engine.training.pretraining.masked_batches import MaskedBatches, MaskedText
from engine.training.pretraining.mlm_head import MaskedLanguageHead

_MAX_SCORES = 2**28  # of a micro-batch: a gigabyte in float32


def masked_gradients(
    student: Student,
    head: MaskedLanguageHead,
    texts: Sequence[MaskedText],
    workers: Workers,
    budget: int,
    *,
    head_alone: bool = False,
) -> tuple[float, list[Tensor]]:
    """Mean cross-entropy of the hidden tokens of all texts, and its gradients in float32.

    They are those of the student's tensors, then the head's; with `head_alone`, of the head's only.
    `budget`: padded tokens of a micro-batch. Padding is never asked for. Equal to one big batch,
    however it is cut.
    """
    hidden = sum(len(text.places) for text in texts)
    longest = int(_MAX_SCORES * sum(len(text.ids) for text in texts) / hidden / head.vocabulary)
    batches = micro_batches([len(text.ids) for text in texts], min(budget, longest))
    if head_alone:
        parameters = head.working
    else:
        parameters = [*student.working, *head.working]
    student.training_mode()

    def one(micro: MicroBatch) -> tuple[float, list[Tensor]]:
        chosen = [texts[place] for place in micro.places]
        with torch.set_grad_enabled(not head_alone):
            states = student.token_states([text.ids.tolist() for text in chosen])  # (t, d)
        places, targets = _joined(chosen, student.device)
        loss = (
            torch.nn.functional.cross_entropy(head.scores(states[places]), targets, reduction="sum")
            / hidden
        )
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        return loss.item(), [gradient.float() for gradient in gradients]

    value = 0.0
    total = list[Tensor]()
    for part, gradients in workers.in_order(one, batches):  # not kept to the end: see grad_cache
        value += part
        if total:
            torch._foreach_add_(total, gradients)
        total = total or gradients
    return value, total


def _joined(texts: Sequence[MaskedText], device: str) -> tuple[Tensor, Tensor]:
    """Places of the hidden tokens in the texts laid end to end, and what stood there.

    Two of (k,).
    """
    places = []
    start = 0
    for text in texts:
        places.append(torch.from_numpy(text.places + start))
        start += len(text.ids)
    return torch.cat(places).to(device), torch.cat(
        [torch.from_numpy(text.targets) for text in texts]
    ).to(device)


# share of the steps in which a fresh head learns alone, so that its noise does not reach the
# adapter
_HEAD_ALONE = 0.2
_FRESH_HEAD_RATE = 1e-3


def pretrain(job: Job) -> TrainResult:
    """Pre-train a LoRA adapter on the chunks; as `train` as to resuming, stopping, finishing and
    errors.

    With the method PT, held-out checks stop it and choose the best step, as in fine-tuning. With
    PT-FT the last step is the result and nothing is measured: masked words say little about search,
    and what follows is to make use of them. Ask `engine.training.pretraining.mlm_head.unsuitable`
    before.
    """
    whole = job.config.pretrain_weights == "all"
    with prepared(
        job, report=job.config.method == "PT", whole=whole
    ) as setup:  # else fine-tuning follows and reports the choices
        return _Pretraining(setup).run()


def of_new_head(alone: int) -> str:
    """What becomes of a head that learns alone for so many steps."""
    if alone:
        first = f"learns alone for {alone} step{'' if alone == 1 else 's'} and "
    else:
        first = ""
    return f"the model's folder holds none; it {first}is thrown away in the end"


class _Pretraining(Loop):
    name = "Pre-training"
    of_what = " of pre-training"
    rate_setting = "pretrain_learning_rate"

    def __init__(self, setup: Setup) -> None:
        data = setup.job.data
        config = setup.job.config
        if config.method == "PT":
            pool = build_pool(data, config)
        else:
            pool = None
        super().__init__(setup, config.pretrain_steps, pool, setup.key(before=["pre-training"]))
        self.batches = MaskedBatches(self.student, data.chunks, config, self._stop_if_asked)
        self.head = MaskedLanguageHead(self.student, self.batches.token_counts, config.seed)
        if self.head.fresh:
            self.alone = round(_HEAD_ALONE * config.pretrain_steps)
        else:
            self.alone = 0
        self.adapter, self.own = (
            list(self.student.masters.values()),
            list(self.head.masters.values()),
        )
        self.optimizer = self._adamw(self.adapter, self.own)

    @property
    def masters(self) -> dict[str, Tensor]:
        """The adapter and the head."""
        return super().masters | {
            f"head/{name}": tensor for name, tensor in self.head.masters.items()
        }

    def run(self) -> TrainResult:
        """From the last checkpoint, or the base model, to the adapter."""
        own = ("the model's own", "its folder holds the weights")
        self.choose(
            "head for masked words",
            *(("a new one", of_new_head(self.alone)) if self.head.fresh else own),
        )
        return self._repeat()

    def _publish(self) -> None:
        super()._publish()
        self.head.publish()

    def _gradients(self) -> Gradients:
        step = self.state.step
        budget = self.plan.micro_batch_tokens
        texts = self.batches.batch(step)
        alone = step < self.alone
        value, gradients = masked_gradients(
            self.student, self.head, texts, self.workers, budget, head_alone=alone
        )
        trained = self.own if alone else [*self.adapter, *self.own]
        return Gradients(
            value, trained, gradients, self._rates(), sum(len(text.ids) for text in texts)
        )

    def _rates(self) -> tuple[float, float]:
        """Learning rates of the adapter and of the head at this step."""
        config = self.config
        step = self.state.step
        alone = self.alone
        peak = config.pretrain_learning_rate
        warmup = config.warmup
        steps = config.pretrain_steps
        if step < alone:
            adapter = 0.0
        else:
            adapter = learning_rate(step - alone, steps - alone, peak, warmup)
        return adapter, learning_rate(
            step, steps, max(peak, _FRESH_HEAD_RATE) if self.head.fresh else peak, warmup
        )

    def _check_is_due(self) -> bool:
        """Also none before the adapter is trained, but at the start."""
        return super()._check_is_due() and not 0 < self.state.step <= self.alone

    def _why(self, ended: Ended) -> str:
        if self.pool is None:
            return ""
        if not self.chooses_step:
            return "the last one is kept (training.keep)"
        return (
            f"the adapter of step {self.state.best_step} is kept, which did best in the held-out"
            " checks"
        )
