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
from engine.training.compute.workers import Workers


def compute_gradients(
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
    Both equal the plain step: with the chain rule, dL/dθ = Σ_i dL/dv_i · dv_i/dθ over the vectors
    v_i, so that the loss needs all vectors, but only one micro-batch's graph at a time. With
    `dropout` the second pass repeats the first one's random state, and micro-batches run one at a
    time, because they share torch's generator. `peers` take a share of the micro-batches each, and
    all get the same result.
    """
    run = map if dropout else workers.in_order
    share = peers.own_share(batches)
    states: list[_RandomState] = []

    def first_pass(batch: MicroBatch) -> Tensor:
        """Return the vectors (b, d) of a micro-batch, with a graph if graphs are kept."""
        if keep_graphs:
            return forward(batch)
        if dropout:
            states.append(_RandomState())
        with torch.no_grad():
            return forward(batch)

    outputs = list(run(first_pass, share))  # (b, d) of each micro-batch
    if outputs:
        example = outputs[0]
    else:
        # A process without a share needs the shape of a vector.
        with torch.no_grad():
            example = forward(batches[0])
    count = sum(len(batch.places) for batch in batches)
    places = [torch.from_numpy(batch.places).to(example.device) for batch in share]
    vectors = example.new_zeros((count, example.shape[1]))  # (n, d)
    for rows, output in zip(places, outputs, strict=True):
        vectors[rows] = output.detach()
    peers.add([vectors])
    value, vector_gradients = _differentiate(loss, vectors)

    def second_pass(number: int) -> list[Tensor]:
        """Return what a micro-batch contributes to each parameter's gradient."""
        output = outputs[number]
        if not keep_graphs:
            if dropout:
                states[number].restore()
            output = forward(share[number])
        by_parameter = torch.autograd.grad(
            output, list(parameters), vector_gradients[places[number]]
        )
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
    by_batch: Iterable[list[Tensor]], parameters: Sequence[Tensor], peers: Peers
) -> list[Tensor]:
    """Return the sum over all micro-batches and peers for each parameter, zeros without any."""
    # They are added as they come in: kept to the end, they would keep the allocator from reusing
    # the memory of graphs.
    iterator = iter(by_batch)
    total = next(iterator, None)
    if not total:
        total = [torch.zeros_like(weights, dtype=torch.float32) for weights in parameters]
    for gradients in iterator:
        torch._foreach_add_(total, gradients)
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
        """Make it torch's random state again."""
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
