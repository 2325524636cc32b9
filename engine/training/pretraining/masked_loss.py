"""Loss and gradients of a step of masked-language modelling, micro-batches side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.workers import Workers
from engine.training.model.student import Student
from engine.training.pretraining.masked_batches import MaskedText
from engine.training.pretraining.mlm_head import MaskedLanguageHead

_MAX_SCORES = 2**28  # of a micro-batch: a gigabyte in float32


def masked_gradients(
    student: Student, head: MaskedLanguageHead, texts: Sequence[MaskedText], workers: Workers, budget: int, *,
    head_alone: bool = False,
) -> tuple[float, list[Tensor]]:  # fmt: skip
    """Mean cross-entropy of the hidden tokens of all texts, and its gradients in float32.

    They are those of the student's tensors, then the head's; with `head_alone`, of the head's only. `budget`: padded
    tokens of a micro-batch. Padding is never asked for. Equal to one big batch, however it is cut.
    """
    hidden = sum(len(text.places) for text in texts)
    longest = int(_MAX_SCORES * sum(len(text.ids) for text in texts) / hidden / head.vocabulary)
    batches = micro_batches([len(text.ids) for text in texts], min(budget, longest))
    parameters = head.working if head_alone else [*student.working, *head.working]
    student.training_mode()

    def one(micro: MicroBatch) -> tuple[float, list[Tensor]]:
        chosen = [texts[place] for place in micro.places]
        with torch.set_grad_enabled(not head_alone):
            states = student.token_states([text.ids.tolist() for text in chosen])  # (t, d)
        places, targets = _joined(chosen, student.device)
        loss = torch.nn.functional.cross_entropy(head.scores(states[places]), targets, reduction="sum") / hidden
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        return loss.item(), [gradient.float() for gradient in gradients]

    value, total = 0.0, list[Tensor]()
    for part, gradients in workers.in_order(one, batches):  # not kept to the end: see grad_cache
        value += part
        if total:
            torch._foreach_add_(total, gradients)
        total = total or gradients
    return value, total


def _joined(texts: Sequence[MaskedText], device: str) -> tuple[Tensor, Tensor]:
    """Places of the hidden tokens in the texts laid end to end, and what stood there. Two of (k,)."""
    places, start = [], 0
    for text in texts:
        places.append(torch.from_numpy(text.places + start))
        start += len(text.ids)
    return torch.cat(places).to(device), torch.cat([torch.from_numpy(text.targets) for text in texts]).to(device)
