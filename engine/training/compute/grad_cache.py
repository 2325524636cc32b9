"""Exact gradients of a whole-batch loss in little memory, on micro-batches that run side by side
on a CPU's cores.

GradCache: Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited
    setup".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.training.compute.micro_batches import MicroBatch
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers, in_turn


def gradients(
    forward: Callable[[MicroBatch], Tensor],
    parameters: Sequence[Tensor],
    batches: Sequence[MicroBatch],
    loss: Callable[[Tensor], Tensor],
    workers: Workers,
    *,
    keep_graphs: bool,
    dropout: bool,
    peers: Peers = ALONE,
) -> tuple[float, list[Tensor]]:
    """Loss of the batch, and its gradient for each parameter in float32.

    `forward` gives the vectors (b, d) of one micro-batch; `loss` takes all vectors (n, d) in the
    batch's order. With `keep_graphs` one forward pass is made and all graphs are held; otherwise
    the first pass keeps vectors only and each micro-batch is run again with its graph. Both equal
    the plain step. With `dropout` the second pass repeats the first one's random state, and
    micro-batches run one at a time, because they share torch's one generator. `peers` take a share
    of the micro-batches each, and all get the same result.
    """
    run = workers.in_order if not dropout else in_turn
    own = peers.mine(batches)
    whole = _Whole(sum(len(batch.places) for batch in batches), own, loss, peers)
    if not own:
        with torch.no_grad():
            like = forward(batches[0])  # for the shape of a vector alone
        value, _ = whole.loss_and_gradients([], like)
        return value, _summed([], parameters, peers)
    if keep_graphs:
        parts = list(run(forward, own))
        value, by_vector = whole.loss_and_gradients(parts, parts[0])
        pairs: list[tuple[Tensor, Tensor]] = list(zip(parts, by_vector, strict=True))
        del parts
        return value, _summed(
            run(lambda pair: _backward(pair[0], parameters, pair[1]), pairs), parameters, peers
        )
    states: list[_RandomState | None] = []

    def first(batch: MicroBatch) -> Tensor:
        if dropout:
            states.append(_RandomState())
        with torch.no_grad():
            return forward(batch)

    found = list(run(first, own))
    value, by_vector = whole.loss_and_gradients(found, found[0])
    states = states or [None] * len(own)

    def second(item: tuple[MicroBatch, Tensor, _RandomState | None]) -> list[Tensor]:
        batch, gradient, state = item
        if state is not None:
            state.restore()
        return _backward(forward(batch), parameters, gradient)

    return value, _summed(
        run(second, list(zip(own, by_vector, states, strict=True))), parameters, peers
    )


@dataclass(frozen=True, slots=True)
class _Whole:
    """The loss of all `count` vectors of a step, of which this process makes those of its `own`
    micro-batches.
    """

    count: int
    own: Sequence[MicroBatch]
    loss: Callable[[Tensor], Tensor]
    peers: Peers

    def loss_and_gradients(
        self, parts: Sequence[Tensor], like: Tensor
    ) -> tuple[float, list[Tensor]]:
        """The loss, and its gradient for the vectors of each own micro-batch.

        `like`: vectors of any micro-batch.
        """
        places = [torch.from_numpy(batch.places).to(like.device) for batch in self.own]
        vectors = like.new_zeros((self.count, like.shape[1]))
        for where, part in zip(places, parts, strict=True):
            vectors[where] = part.detach()
        self.peers.add([vectors])
        vectors.requires_grad_()
        value = self.loss(vectors)
        (gradient,) = torch.autograd.grad(value, vectors)
        return value.item(), [gradient[where] for where in places]


def _backward(vectors: Tensor, parameters: Sequence[Tensor], gradient: Tensor) -> list[Tensor]:
    return [part.float() for part in torch.autograd.grad(vectors, list(parameters), gradient)]


def _summed(
    parts: Iterable[list[Tensor]], parameters: Sequence[Tensor], peers: Peers
) -> list[Tensor]:
    """The sum, made while the parts come in: kept to the end, they would keep the allocator from
    using again what graphs held.
    """
    rest = iter(parts)
    total = next(rest, None) or [torch.zeros_like(one, dtype=torch.float32) for one in parameters]
    for part in rest:
        torch._foreach_add_(total, part)
    peers.add(total)
    return total


class _RandomState:
    """torch's random state now, on the CPU and on the GPUs."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        if torch.cuda.is_available():
            self._cuda = torch.cuda.get_rng_state_all()
        else:
            self._cuda = []

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
