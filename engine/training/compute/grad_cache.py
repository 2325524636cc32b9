"""Exact gradients of a whole-batch loss in little memory, by micro-batches.

GradCache: Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited
setup". On a CPU micro-batches run in parallel on the cores.
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
    """Return the loss of a batch, and its gradient for each parameter in float32.

    `forward` returns the vectors (b, d) of a micro-batch; `loss` takes all vectors (n, d) in the
    batch's order. With `keep_graphs` there is a single forward pass and all graphs are held;
    otherwise the first pass keeps only vectors, and each micro-batch runs again with its graph.
    Both equal the plain step. With `dropout` the second pass repeats the first one's random state,
    and micro-batches run one at a time, because they share torch's generator. `peers` take a share
    of the micro-batches each, and all get the same result.
    """
    run = in_turn if dropout else workers.in_order
    own = peers.own_share(batches)
    whole = _Whole(sum(len(batch.places) for batch in batches), own, loss, peers)
    if not own:
        # The forward pass only tells the shape of a vector.
        with torch.no_grad():
            like = forward(batches[0])
        value, _ = whole.loss_and_gradients([], like)
        return value, _sum_gradients([], parameters, peers)
    if keep_graphs:
        parts = list(run(forward, own))
        value, by_vector = whole.loss_and_gradients(parts, parts[0])
        pairs: list[tuple[Tensor, Tensor]] = list(zip(parts, by_vector, strict=True))
        del parts

        def backward(pair: tuple[Tensor, Tensor]) -> list[Tensor]:
            part, gradient = pair
            return _backward(part, parameters, gradient)

        return value, _sum_gradients(run(backward, pairs), parameters, peers)
    states: list[_RandomState | None] = []

    def first_pass(batch: MicroBatch) -> Tensor:
        if dropout:
            states.append(_RandomState())
        with torch.no_grad():
            return forward(batch)

    vectors = list(run(first_pass, own))
    value, by_vector = whole.loss_and_gradients(vectors, vectors[0])
    states = states or [None] * len(own)

    def second_pass(item: tuple[MicroBatch, Tensor, _RandomState | None]) -> list[Tensor]:
        batch, gradient, state = item
        if state is not None:
            state.restore()
        return _backward(forward(batch), parameters, gradient)

    items = list(zip(own, by_vector, states, strict=True))
    return value, _sum_gradients(run(second_pass, items), parameters, peers)


@dataclass(frozen=True, slots=True)
class _Whole:
    """The loss of all `count` vectors of a step, of which this process makes its `own` share."""

    count: int
    own: Sequence[MicroBatch]
    loss: Callable[[Tensor], Tensor]
    peers: Peers

    def loss_and_gradients(
        self, parts: Sequence[Tensor], like: Tensor
    ) -> tuple[float, list[Tensor]]:
        """Return the loss, and its gradient for the vectors of each own micro-batch.

        `like` holds vectors of any micro-batch.
        """
        places = [torch.from_numpy(batch.places).to(like.device) for batch in self.own]
        vectors = like.new_zeros((self.count, like.shape[1]))
        for rows, part in zip(places, parts, strict=True):
            vectors[rows] = part.detach()
        self.peers.add([vectors])
        vectors.requires_grad_()
        value = self.loss(vectors)
        (gradient,) = torch.autograd.grad(value, vectors)
        return value.item(), [gradient[rows] for rows in places]


def _backward(vectors: Tensor, parameters: Sequence[Tensor], gradient: Tensor) -> list[Tensor]:
    return [part.float() for part in torch.autograd.grad(vectors, list(parameters), gradient)]


def _sum_gradients(
    parts: Iterable[list[Tensor]], parameters: Sequence[Tensor], peers: Peers
) -> list[Tensor]:
    """Return the sum over all parts and peers, zeros without any part."""
    # Parts are added as they come in: kept to the end, they would keep the allocator from reusing
    # the memory of graphs.
    iterator = iter(parts)
    total = next(iterator, None)
    if not total:
        total = [torch.zeros_like(weights, dtype=torch.float32) for weights in parameters]
    for part in iterator:
        torch._foreach_add_(total, part)
    peers.add(total)
    return total


class _RandomState:
    """A copy of torch's present random state, on the CPU and on the GPUs."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda: list[Tensor] = []
        if torch.cuda.is_available():
            self._cuda = torch.cuda.get_rng_state_all()

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
