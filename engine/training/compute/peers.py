"""The processes that train together, as the training loop sees them.

Every process draws the same batches and runs its own share of the micro-batches. The vectors are
summed to the whole batch, each process takes the loss of all of it, and the gradients of the shares
are summed, so that all hold the same adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


class Peers:
    """A single process, which does everything itself; the base class of several processes."""

    rank: int = 0
    """Number of this process. Rank 0 leads: only it writes and emits events."""
    count: int = 1
    """Number of all processes."""
    local_count: int = 1
    """Number of processes on this machine."""

    @property
    def leads(self) -> bool:
        """Whether this process writes checkpoints and emits events."""
        return self.rank == 0

    def own_share(self, items: Sequence[T]) -> list[T]:
        """Return this process's share: every `count`-th item, from number `rank`.

        If the items are sorted by size, the shares are about equally large.
        """
        return list(items[self.rank :: self.count])

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the processes.

        All have to call it, with the same shapes.
        """

    def decide(self, value: T) -> T:
        """Return the leader's value in every process. All have to call it."""
        return value


ALONE = Peers()
