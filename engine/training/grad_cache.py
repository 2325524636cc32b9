"""Exact gradients of a whole-batch loss in little memory, on micro-batches that run side by side on a CPU's cores.

GradCache: Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited setup".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.training.micro_batches import MicroBatch
from engine.training.workers import Workers, in_turn


def gradients(
    forward: Callable[[MicroBatch], Tensor],
    parameters: Sequence[Tensor],
    batches: Sequence[MicroBatch],
    loss: Callable[[Tensor], Tensor],
    workers: Workers,
    *,
    keep_graphs: bool,
    dropout: bool,
) -> tuple[float, list[Tensor]]:
    """Loss of the batch, and its gradient for each parameter in float32.

    `forward` gives the vectors (b, d) of one micro-batch; `loss` takes all vectors (n, d) in the batch's order. With
    `keep_graphs` one forward pass is made and all graphs are held; otherwise the first pass keeps vectors only and each
    micro-batch is run again with its graph. Both equal the plain step. With `dropout` the second pass repeats the first
    one's random state, and micro-batches run one at a time, because they share torch's one generator.
    """
    run = workers.map if not dropout else in_turn
    if keep_graphs:
        parts = run(forward, batches)
        value, slopes = _loss_and_slopes(parts, batches, loss)
        pairs: list[tuple[Tensor, Tensor]] = list(zip(parts, slopes, strict=True))
        del parts
        return value, _summed(run(lambda pair: _backward(pair[0], parameters, pair[1]), pairs))
    states: list[_RandomState | None] = []

    def first(batch: MicroBatch) -> Tensor:
        if dropout:
            states.append(_RandomState())
        with torch.no_grad():
            return forward(batch)

    value, slopes = _loss_and_slopes(run(first, batches), batches, loss)
    states = states or [None] * len(batches)

    def second(item: tuple[MicroBatch, Tensor, _RandomState | None]) -> list[Tensor]:
        batch, slope, state = item
        if state is not None:
            state.restore()
        return _backward(forward(batch), parameters, slope)

    return value, _summed(run(second, list(zip(batches, slopes, states, strict=True))))


def _loss_and_slopes(
    parts: Sequence[Tensor], batches: Sequence[MicroBatch], loss: Callable[[Tensor], Tensor]
) -> tuple[float, list[Tensor]]:
    """The loss, and its gradient for the vectors of each micro-batch."""
    places = [torch.from_numpy(batch.places).to(parts[0].device) for batch in batches]
    vectors = parts[0].new_empty((sum(map(len, places)), parts[0].shape[1]))
    for where, part in zip(places, parts, strict=True):
        vectors[where] = part.detach()
    vectors.requires_grad_()
    value = loss(vectors)
    (slope,) = torch.autograd.grad(value, vectors)
    return value.item(), [slope[where] for where in places]


def _backward(vectors: Tensor, parameters: Sequence[Tensor], slope: Tensor) -> list[Tensor]:
    return [part.float() for part in torch.autograd.grad(vectors, list(parameters), slope)]


def _summed(parts: list[list[Tensor]]) -> list[Tensor]:
    total = parts[0]
    for part in parts[1:]:
        torch._foreach_add_(total, part)
    return total


class _RandomState:
    """torch's random state now, on the CPU and on the GPUs."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
