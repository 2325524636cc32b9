"""Exact gradients of a whole-batch loss in little memory, by micro-batches.

GradCache: Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited
setup". On a CPU micro-batches run in parallel on the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
    share = peers.own_share(batches)
    states: list[_RandomState] = []

    def first_pass(batch: MicroBatch) -> Tensor:
        if keep_graphs:
            return forward(batch)
        if dropout:
            states.append(_RandomState())
        with torch.no_grad():
            return forward(batch)

    parts = list(run(first_pass, share))
    if parts:
        like = parts[0]
    else:
        # A process without a share needs the shape of a vector.
        with torch.no_grad():
            like = forward(batches[0])
    count = sum(len(batch.places) for batch in batches)
    places = [torch.from_numpy(batch.places).to(like.device) for batch in share]
    vectors = like.new_zeros((count, like.shape[1]))
    for rows, part in zip(places, parts, strict=True):
        vectors[rows] = part.detach()
    peers.add([vectors])
    value, by_vector = _differentiate(loss, vectors)

    def second_pass(number: int) -> list[Tensor]:
        part = parts[number]
        if not keep_graphs:
            if dropout:
                states[number].restore()
            part = forward(share[number])
        by_parameter = torch.autograd.grad(part, list(parameters), by_vector[places[number]])
        return [gradient.float() for gradient in by_parameter]

    by_batch = run(second_pass, range(len(share)))
    return value, _sum_gradients(by_batch, parameters, peers)


def _differentiate(loss: Callable[[Tensor], Tensor], vectors: Tensor) -> tuple[float, Tensor]:
    """Return the loss of all vectors (n, d), and its gradient (n, d)."""
    vectors.requires_grad_()
    value = loss(vectors)
    (gradient,) = torch.autograd.grad(value, vectors)
    return value.item(), gradient


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
